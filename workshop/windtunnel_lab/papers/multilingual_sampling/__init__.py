"""When life gives you samples: multilingual sampling (Khairi et al. 2025)."""
