"""Xu et al. 2025, low-bandwidth partitioning on Frontier, https://arxiv.org/abs/2501.04266."""
