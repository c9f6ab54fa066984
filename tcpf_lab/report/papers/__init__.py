"""Pages of single papers: their figures by name, and their sentences held against the runs."""
