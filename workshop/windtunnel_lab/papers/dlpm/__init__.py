"""Cao et al. 2025, Locality-aware Fair Scheduling in LLM Serving, https://arxiv.org/abs/2501.14312."""
