"""AgentScope at scale (Pan et al. 2024)."""
