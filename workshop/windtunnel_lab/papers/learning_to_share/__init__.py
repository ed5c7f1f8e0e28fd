"""Learning to Share (Fioresi et al. 2026)."""
