"""Pearson et al. 2021, TEMPI (HPDC 2021), https://arxiv.org/abs/2012.14363."""
