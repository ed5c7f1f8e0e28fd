"""Yao et al. 2023, Flover: temporal fusion of requests, https://arxiv.org/abs/2305.13484."""
