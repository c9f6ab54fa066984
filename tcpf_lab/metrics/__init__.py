"""Arrays to numbers: pure functions, and the summary of one run."""
