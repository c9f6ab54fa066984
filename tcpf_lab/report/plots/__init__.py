"""Figures to explore runs with: `kinds` is the table of them."""
