"""Two virtual machines as hosts."""
