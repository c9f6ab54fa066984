"""Fuzzing of the reader and of the state machine."""
