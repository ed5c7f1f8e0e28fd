"""Prabhakar, Zhang & Wentzlaff 2024, Kraken (NeurIPS 2024), https://arxiv.org/abs/2408.07802."""
