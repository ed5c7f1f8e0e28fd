"""ThreadWeaver (Lian et al. 2025)."""
