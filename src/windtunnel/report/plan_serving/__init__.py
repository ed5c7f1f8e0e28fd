"""Search results of the serving planner as terminal text, figures and HTML."""
