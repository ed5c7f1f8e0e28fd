"""The planner for groups of unlike devices: its space, its bounds and its search."""
