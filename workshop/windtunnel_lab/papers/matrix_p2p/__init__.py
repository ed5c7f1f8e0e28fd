"""Matrix (Wang et al. 2025)."""
