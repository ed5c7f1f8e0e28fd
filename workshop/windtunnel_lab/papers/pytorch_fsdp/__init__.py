"""Zhao et al. 2023, PyTorch FSDP (PVLDB 16(12)), https://arxiv.org/abs/2304.11277."""
