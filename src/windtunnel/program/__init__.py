"""Programs that the engine runs: task tables, segments of launches, the builder."""
