"""Dong et al. 2025, Generalized Parallel Scaling with Interdependent Generations, https://arxiv.org/abs/2510.01143."""
