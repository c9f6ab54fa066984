"""The command line: verbs of a kind in a module, which is imported when one is called."""
