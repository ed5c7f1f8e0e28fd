"""Halves of a batch with the norm inside the reduction (Gond et al. 2025)."""
