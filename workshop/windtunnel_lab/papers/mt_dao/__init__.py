"""MT-DAO (Iacob et al. 2025), https://arxiv.org/abs/2510.05361."""
