"""SCALLION and SCAFCOM (Huang et al. 2023), https://arxiv.org/abs/2308.08165."""
