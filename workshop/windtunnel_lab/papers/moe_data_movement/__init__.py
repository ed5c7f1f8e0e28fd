"""Yu et al. 2025, Orders in Chaos, https://arxiv.org/abs/2510.05497."""
