"""L-GreCo (Alimohammadi et al. 2022), https://arxiv.org/abs/2210.17357."""
