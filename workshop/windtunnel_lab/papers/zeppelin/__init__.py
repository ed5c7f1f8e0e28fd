"""Chen et al. 2025, Zeppelin, https://arxiv.org/abs/2509.21841."""
