"""Shen et al. 2022, SE-MoE, https://arxiv.org/abs/2205.10034."""
