"""The study of router buffers (003): its Figures 2 to 4 from runs with users."""
