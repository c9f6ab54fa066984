"""Numbers of the published papers."""
