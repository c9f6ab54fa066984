"""The thesis and its paper: their claims as checks, and the comparison with their tables."""
