"""Flows over several bottlenecks against cross traffic over each: the open question of 002."""
