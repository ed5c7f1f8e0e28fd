"""Miao et al. 2022, Galvatron: automatic parallelism for Transformers (PVLDB 16(3)), https://arxiv.org/abs/2211.13878."""
