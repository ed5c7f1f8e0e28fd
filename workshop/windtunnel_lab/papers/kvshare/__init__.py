"""Reuse of keys and values of prompts alike (Yang et al. 2025)."""
