"""Liu et al. 2024, NCPP: benchmark scores of processors from their features, https://arxiv.org/abs/2407.03385."""
