"""Yang et al. 2023, training across clusters with unlike networks (ICPP 2024), https://arxiv.org/abs/2312.03549."""
