"""Paper 001: what EF traffic with priority does to TCP."""
