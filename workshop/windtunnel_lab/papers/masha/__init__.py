"""MASHA (Beznosikov et al. 2021), https://arxiv.org/abs/2110.03313."""
