"""GoAgent (Chen et al. 2026)."""
