"""Sun et al. 2024, linear attention sequence parallelism (TMLR 2025), https://arxiv.org/abs/2404.02882."""
