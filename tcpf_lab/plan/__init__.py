"""The plan of a run: pure data, complete before the first command."""
