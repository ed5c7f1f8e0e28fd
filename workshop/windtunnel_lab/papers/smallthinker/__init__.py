"""Song et al. 2025, SmallThinker, https://arxiv.org/abs/2507.20984."""
