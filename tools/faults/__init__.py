"""Faults planted into real runs, and what must hold after each: no loss, no leftover, no lie."""
