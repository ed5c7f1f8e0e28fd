"""SparseLoCo (Sarfi et al. 2025), https://arxiv.org/abs/2508.15706."""
