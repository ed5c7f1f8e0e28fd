"""Liao et al. 2024, Fuyou, https://arxiv.org/abs/2403.06504."""
