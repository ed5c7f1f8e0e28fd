"""FedCompass (Li et al. 2023), https://arxiv.org/abs/2309.14675."""
