"""Chen et al. 2025, Parallel Scaling Law for Language Models, https://arxiv.org/abs/2505.10475."""
