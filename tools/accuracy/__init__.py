"""Accuracy of the capture analysis: random scenarios, compared with the kernel's log."""
