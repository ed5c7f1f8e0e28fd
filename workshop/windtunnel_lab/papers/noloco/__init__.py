"""NoLoCo (Kolehmainen et al. 2025), https://arxiv.org/abs/2506.10911."""
