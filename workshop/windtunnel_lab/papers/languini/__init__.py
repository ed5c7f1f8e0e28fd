"""Stanić et al. 2023, The Languini Kitchen, https://arxiv.org/abs/2309.11197."""
