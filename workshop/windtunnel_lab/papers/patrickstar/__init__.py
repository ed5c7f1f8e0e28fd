"""Fang et al. 2021, PatrickStar, https://arxiv.org/abs/2108.05818."""
