"""Markov et al. 2023, QSDP (ICML), https://arxiv.org/abs/2302.02390."""
