"""What is measured: the experiment file, its checks, and its expansion into runs."""
