"""Zhao et al. 2025, hardware and DeepSeek-V3 (ISCA 2025), https://arxiv.org/abs/2505.09343."""
