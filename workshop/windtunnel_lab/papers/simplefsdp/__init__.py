"""Zhang et al. 2024, SimpleFSDP, https://arxiv.org/abs/2411.00284."""
