"""Lindermayr et al. 2026, Online Flow Time Minimization with Gradually Revealed Jobs, https://arxiv.org/abs/2602.12716."""
