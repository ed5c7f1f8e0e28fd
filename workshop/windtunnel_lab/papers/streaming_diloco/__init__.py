"""Streaming DiLoCo (Douillard et al. 2025), https://arxiv.org/abs/2501.18512."""
