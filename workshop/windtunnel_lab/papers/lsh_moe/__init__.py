"""Nie et al. 2024, LSH-MoE (NeurIPS 2024), https://arxiv.org/abs/2411.08446."""
