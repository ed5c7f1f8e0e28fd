"""Saha and Ye 2024, the I/O complexity of attention (ICML 2024), https://arxiv.org/abs/2402.07443."""
