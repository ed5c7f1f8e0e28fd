"""Chen et al. 2025, Rethinking Fine-Tuning when Scaling Test-Time Compute, https://arxiv.org/abs/2502.07154."""
