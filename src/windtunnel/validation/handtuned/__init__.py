"""The planner against plans that people tuned: every measured group, its row plans, and the plan that a search finds."""
