"""Efficient tree search (Hooper et al. 2025)."""
