"""DataStates-LLM: lazy checkpoints behind forward and backward."""
