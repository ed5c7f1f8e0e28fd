"""Shen et al. 2024, FastSwitch: context switches under changing priorities, https://arxiv.org/abs/2411.18424."""
