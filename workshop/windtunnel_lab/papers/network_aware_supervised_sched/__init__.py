"""Timilsina and Shannigrahi 2025: completion predicted for each candidate site, https://arxiv.org/abs/2510.21419."""
