"""Launch files of serving engines: one server a pool, what stands in front, and the load that they were sized for."""
