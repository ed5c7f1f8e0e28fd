"""The planner for heterogeneous clusters: its space, its bounds and its search."""
