"""Prompts and answers on devices of their own, by objective (Zhong et al. 2024)."""
