"""Shao et al. 2024, MassiveDS, https://arxiv.org/abs/2407.12854."""
