"""Sliwko 2025, load balancing in clouds: migrations priced by what they copy, https://arxiv.org/abs/2509.22704."""
