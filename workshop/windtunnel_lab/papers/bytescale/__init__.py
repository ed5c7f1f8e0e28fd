"""Ge et al. 2025, ByteScale, https://arxiv.org/abs/2502.21231."""
