"""1-bit Adam (Tang et al. 2021), what it learns, https://arxiv.org/abs/2102.02888."""
