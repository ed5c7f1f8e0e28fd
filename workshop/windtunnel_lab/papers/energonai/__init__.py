"""Du et al. 2022, EnergonAI: inference of models of 10 to 100 billion parameters, https://arxiv.org/abs/2209.02341."""
