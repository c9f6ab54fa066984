"""Numbers for other programs: tidy tables with a dictionary, and Flent's data files."""
