"""CO2 (Sun et al. 2024), what it learns, https://arxiv.org/abs/2401.16265."""
