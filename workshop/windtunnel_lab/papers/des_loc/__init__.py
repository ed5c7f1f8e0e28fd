"""DES-LOC (Iacob et al. 2025), https://arxiv.org/abs/2505.22549."""
