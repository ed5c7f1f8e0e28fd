"""Flag Aggregator (Almasi et al. 2023), what it learns, https://arxiv.org/abs/2302.05865."""
