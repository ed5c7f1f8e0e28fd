"""Run time of a service as a law of prompt and answer (Narayanan et al. 2023)."""
