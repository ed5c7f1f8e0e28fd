"""Yuan et al. 2025, MoE-Lens, https://arxiv.org/abs/2504.09345."""
