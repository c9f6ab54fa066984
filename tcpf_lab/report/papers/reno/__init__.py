"""Configurations B and D with both readings of Reno, beside the published tables."""
