"""Shah et al. 2025, MSCCL++, https://arxiv.org/abs/2504.09014."""
