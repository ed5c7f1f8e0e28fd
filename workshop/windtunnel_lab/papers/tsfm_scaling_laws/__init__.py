"""Yao et al. 2025, scaling laws for time-series foundation models, https://arxiv.org/abs/2410.12360."""
