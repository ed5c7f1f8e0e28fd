"""Shahbazinia et al. 2025, CloudFormer: slow-down of black-box machines in clouds, https://arxiv.org/abs/2509.03394."""
