"""How often the analysis of a capture is right: scenarios from seeds, held against the kernel."""
