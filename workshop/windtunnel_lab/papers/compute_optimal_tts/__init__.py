"""Compute-optimal test-time scaling (Snell et al. 2024)."""
