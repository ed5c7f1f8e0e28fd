"""Olin-Ammentorp et al. 2024, data collection systems for high-energy physics, https://arxiv.org/abs/2407.00123."""
