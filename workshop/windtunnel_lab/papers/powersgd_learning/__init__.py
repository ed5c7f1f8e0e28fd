"""PowerSGD (Vogels et al. 2019), what it learns, https://arxiv.org/abs/1905.13727."""
