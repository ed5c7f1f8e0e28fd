"""Prime CCL (Keiblinger et al. 2025), https://arxiv.org/abs/2505.14065."""
