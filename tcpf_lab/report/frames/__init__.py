"""Runs and what happened in them over time, as data frames."""
