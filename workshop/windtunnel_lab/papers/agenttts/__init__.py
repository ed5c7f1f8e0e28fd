"""AgentTTS (Wang et al. 2025)."""
