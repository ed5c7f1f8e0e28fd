"""Comparative analysis of MPI, OpenMP and CUDA, 2025, https://arxiv.org/abs/2506.15454."""
