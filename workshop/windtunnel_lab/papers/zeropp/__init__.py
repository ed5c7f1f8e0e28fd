"""Tang et al. 2024, Adaptive Blockwise Task-interleaved Pipeline Parallelism, https://arxiv.org/abs/2402.03791."""
