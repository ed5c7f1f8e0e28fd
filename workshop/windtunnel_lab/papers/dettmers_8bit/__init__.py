"""Dettmers 2015, 8-bit approximations for parallelism, https://arxiv.org/abs/1511.04561."""
