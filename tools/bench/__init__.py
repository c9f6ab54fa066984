"""Benchmarks: ratios and medians on this machine, as JSON; never part of the tests."""
