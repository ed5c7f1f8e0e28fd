"""Yao et al. 2024, ExFlow (IPDPS 2024), https://arxiv.org/abs/2401.08383."""
