"""Claims and their judge; the published numbers."""
