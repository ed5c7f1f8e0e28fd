"""Adaptive parallel reasoning (Pan et al. 2025)."""
