"""Pati et al. 2024, T3 (ASPLOS 2024), https://arxiv.org/abs/2401.16677."""
