"""The study of buffers in slices of a flow (003)."""
