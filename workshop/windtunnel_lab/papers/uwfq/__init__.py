"""User weighted fair queueing, https://arxiv.org/abs/2510.15485."""
