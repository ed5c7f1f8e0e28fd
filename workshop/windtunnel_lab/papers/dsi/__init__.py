"""Distributed speculative inference (Timor et al. 2024)."""
