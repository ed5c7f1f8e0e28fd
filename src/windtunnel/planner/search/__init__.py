"""Branch and bound over candidates, and re-querying a finished search under other limits."""
