"""Tang et al. 2021, 1-bit Adam (ICML), https://arxiv.org/abs/2102.02888."""
