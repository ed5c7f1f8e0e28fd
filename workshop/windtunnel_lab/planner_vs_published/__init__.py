"""The planner against plans that people tuned: measured groups, their row plans, the plan that a search finds."""
