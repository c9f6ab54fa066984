"""The model of RIO: fixed point, claims, page."""
