"""Sun et al. 2024, CO2 (ICLR), https://arxiv.org/abs/2401.16265."""
