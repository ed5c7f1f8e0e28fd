"""Jobs on one cluster: traces, queue policies, placements, an event loop, and what came of it."""
