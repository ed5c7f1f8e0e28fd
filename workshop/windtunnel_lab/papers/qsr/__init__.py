"""Quadratic Synchronization Rule (Gu et al. 2023), https://arxiv.org/abs/2310.14423."""
