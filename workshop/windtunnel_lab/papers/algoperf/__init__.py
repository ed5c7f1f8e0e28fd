"""Dahl et al. 2023, Benchmarking Neural Network Training Algorithms, https://arxiv.org/abs/2306.07179."""
