"""User-Mode Linux in virtual time: the kernel, its build, a guest for each run."""
