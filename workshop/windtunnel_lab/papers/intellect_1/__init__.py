"""INTELLECT-1 (Jaghouar et al. 2024), https://arxiv.org/abs/2412.01152."""
