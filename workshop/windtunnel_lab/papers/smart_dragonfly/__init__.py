"""Wang et al. 2025, SMART: run times on a dragonfly from port counters (AAAI 2026), https://arxiv.org/abs/2511.11111."""
