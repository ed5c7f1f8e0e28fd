"""CodeMonkeys: test-time compute for software engineering (Ehrlich et al. 2025)."""
