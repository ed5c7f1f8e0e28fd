"""Wang et al. 2025, Scaling over Scaling (TTSPM), https://arxiv.org/abs/2505.20522."""
