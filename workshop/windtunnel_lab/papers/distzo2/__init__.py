"""Wang et al. 2025, DistZO2, https://arxiv.org/abs/2507.03211."""
