"""Synthetic Computers (Ge et al. 2026)."""
