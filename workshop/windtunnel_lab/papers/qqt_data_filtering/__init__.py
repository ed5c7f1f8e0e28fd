"""Goyal et al. 2024, Scaling Laws for Data Filtering, https://arxiv.org/abs/2404.07177."""
