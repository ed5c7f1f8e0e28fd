"""8-bit approximations (Dettmers 2015), what they learn, https://arxiv.org/abs/1511.04561."""
