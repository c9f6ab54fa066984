"""Figures to explore runs with: a module per kind, `kinds` is their table."""
