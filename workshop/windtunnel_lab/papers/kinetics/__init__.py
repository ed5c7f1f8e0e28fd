"""Sadhukhan et al. 2025, Kinetics: Rethinking Test-Time Scaling Laws, https://arxiv.org/abs/2506.05333."""
