"""Dong et al. 2025, C4 (HPCA 2025), https://arxiv.org/abs/2406.04594: planned paths."""
