"""When to solve, when to verify (Singhi et al. 2025)."""
