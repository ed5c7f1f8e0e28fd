"""Jiang et al. 2024, MegaScale: Scaling Large Language Model Training to More Than 10,000 GPUs (NSDI 2024)."""
