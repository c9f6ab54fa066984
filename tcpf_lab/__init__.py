"""TCP and queue management experiments on a real Linux kernel."""

__version__ = "0.1.0"
