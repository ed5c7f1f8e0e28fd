"""Wang et al. 2024, FlexSP (ASPLOS 2025), https://arxiv.org/abs/2412.01523."""
