"""Bandwidths that published simulations of DiLoCo ask for, https://arxiv.org/abs/2501.18512, 2502.12996, 2503.09799."""
