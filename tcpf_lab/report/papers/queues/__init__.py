"""Queues of all makes on one workload: what throughput costs in delay, loss and fairness."""
