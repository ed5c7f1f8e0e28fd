"""Liu et al. 2026, Phase Transition for Budgeted Multi-Agent Synergy, https://arxiv.org/abs/2601.17311."""
