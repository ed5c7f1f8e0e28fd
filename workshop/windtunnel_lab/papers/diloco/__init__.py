"""DiLoCo (Douillard et al. 2023), https://arxiv.org/abs/2311.08105."""
