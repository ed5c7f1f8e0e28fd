"""Just One Byte (Zelikman et al. 2023), https://arxiv.org/abs/2306.10015."""
