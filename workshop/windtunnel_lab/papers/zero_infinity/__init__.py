"""Rajbhandari et al. 2021, ZeRO-Infinity, https://arxiv.org/abs/2104.07857."""
