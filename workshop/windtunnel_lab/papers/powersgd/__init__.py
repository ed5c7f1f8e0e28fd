"""Vogels et al. 2019, PowerSGD (NeurIPS), https://arxiv.org/abs/1905.13727."""
