"""Maurya et al. 2024, Deep Optimizer States (Middleware 2024), https://arxiv.org/abs/2410.21316."""
