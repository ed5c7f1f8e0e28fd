"""Nano-batches on one device (Zhu et al. 2024)."""
