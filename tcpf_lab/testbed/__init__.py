"""Where plans are carried out."""
