"""Export: tidy tables with the description of their columns, and Flent's data files."""
