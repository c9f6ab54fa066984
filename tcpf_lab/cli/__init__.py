"""The command line: one module for each verb or noun, imported when it is called."""
