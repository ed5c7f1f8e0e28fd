"""Narayanan et al. 2021, tensor, pipeline and data parallelism together (SC 2021), https://arxiv.org/abs/2104.04473."""
