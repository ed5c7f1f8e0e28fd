"""Programs of model calls: strategies of inference-time compute, agents and tools, on simulated instances."""
