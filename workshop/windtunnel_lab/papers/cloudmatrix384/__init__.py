"""DeepSeek-R1 on CloudMatrix384 (Zuo et al. 2025)."""
