"""Xu et al. 2025, LLM-Mesh: many small models on shared GPUs and CPUs, https://arxiv.org/abs/2507.00507."""
