"""TAGC (2025), what it learns, https://arxiv.org/abs/2504.05638."""
