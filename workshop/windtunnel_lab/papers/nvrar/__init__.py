"""Singhania et al. 2025, NVRAR, https://arxiv.org/abs/2511.09557."""
