"""Wang et al. 2025, Efficient Agents, https://arxiv.org/abs/2508.02694."""
