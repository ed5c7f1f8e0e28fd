"""Sung et al. 2020, DeepSoCS: a neural scheduler of task graphs on unlike elements, https://arxiv.org/abs/2005.07666."""
