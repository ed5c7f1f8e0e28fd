"""Mehta et al. 2025, Muon with latent attention and MoE, https://arxiv.org/abs/2509.24406."""
