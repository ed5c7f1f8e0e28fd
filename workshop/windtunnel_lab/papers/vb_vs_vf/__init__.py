"""Setlur et al. 2025, scaling test-time compute without verification, https://arxiv.org/abs/2502.12118."""
