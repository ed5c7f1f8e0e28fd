"""Dash et al. 2023, distributed training on Frontier for large language models, https://arxiv.org/abs/2312.12705."""
