"""From metrics to the papers' tables and figures."""
