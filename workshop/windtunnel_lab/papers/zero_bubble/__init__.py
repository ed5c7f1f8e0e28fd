"""Qi et al. 2023, Zero Bubble Pipeline Parallelism (ICLR 2024), https://arxiv.org/abs/2401.10241."""
