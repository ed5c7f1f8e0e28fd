"""Qu et al. 2025, Optimizing Test-Time Compute via Meta Reinforcement Fine-Tuning, https://arxiv.org/abs/2503.07572."""
