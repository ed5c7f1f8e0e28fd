"""Attention on memory-optimised devices (Chen et al. 2024)."""
