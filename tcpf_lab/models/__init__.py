"""Analytic models of queues and of TCP."""
