"""Eager updates for DiLoCo (Kale et al. 2025), https://arxiv.org/abs/2502.12996."""
