"""Search results of the training planner as terminal text, figures and HTML."""
