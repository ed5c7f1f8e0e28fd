"""TernGrad (Wen et al. 2017), what it learns, https://arxiv.org/abs/1705.07878."""
