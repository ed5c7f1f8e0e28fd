"""FedASMU (Liu et al. 2023), https://arxiv.org/abs/2312.05770."""
