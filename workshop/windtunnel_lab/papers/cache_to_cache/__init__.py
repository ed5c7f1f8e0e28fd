"""Fu et al. 2025, Cache-to-Cache, https://arxiv.org/abs/2510.03215."""
