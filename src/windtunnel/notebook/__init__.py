"""A scenario in a notebook: `wt.explore(scenario)`."""
