"""Singh et al. 2023, tensor-expert-data parallelism (ICS 2023), https://arxiv.org/abs/2303.06318."""
