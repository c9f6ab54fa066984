"""Short transfers over a shared bottleneck: how long they take, by case (002, section 6.1)."""
