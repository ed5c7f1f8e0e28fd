"""Multiverse (Yang et al. 2025)."""
