"""Wen et al. 2017, TernGrad (NeurIPS), https://arxiv.org/abs/1705.07878."""
