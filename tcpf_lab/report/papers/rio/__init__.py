"""The model of RIO routers (004) beside the paper's tables and the rio qdisc of a real kernel."""
