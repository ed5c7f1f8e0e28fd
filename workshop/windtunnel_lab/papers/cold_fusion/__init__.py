"""ColD Fusion (Don-Yehiya et al. 2022), https://arxiv.org/abs/2212.01378."""
