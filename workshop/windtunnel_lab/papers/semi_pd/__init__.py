"""Prompts and answers on shares of the SMs (Hong et al. 2025)."""
