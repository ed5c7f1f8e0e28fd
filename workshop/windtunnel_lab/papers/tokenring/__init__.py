"""Wang et al. 2024, TokenRing, https://arxiv.org/abs/2412.20501."""
