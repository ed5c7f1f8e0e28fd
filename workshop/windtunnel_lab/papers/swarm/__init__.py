"""SWARM parallelism (Ryabinin et al. 2023), https://arxiv.org/abs/2301.11913."""
