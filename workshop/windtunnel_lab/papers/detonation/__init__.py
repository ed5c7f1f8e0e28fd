"""DeToNATION (From et al. 2025), https://arxiv.org/abs/2502.06728."""
