"""ParallelPrompt (Kolawole et al. 2025)."""
