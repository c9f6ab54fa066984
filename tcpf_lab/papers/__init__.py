"""The papers: for each its published numbers, claims and page."""
