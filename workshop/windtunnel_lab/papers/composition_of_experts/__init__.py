"""Jain et al. 2024, Composition of Experts, https://arxiv.org/abs/2412.01868."""
