"""Papaya (Huba et al. 2021), https://arxiv.org/abs/2111.04877."""
