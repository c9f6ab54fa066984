"""Fuzzing of everything that is read: captures, specs, inventories and records of runs."""
