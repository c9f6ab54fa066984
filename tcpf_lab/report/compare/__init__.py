"""Measured against published, one testbed against another, one setting against the next."""
