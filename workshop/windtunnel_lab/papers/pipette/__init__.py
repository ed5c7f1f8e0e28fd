"""Yim et al. 2024, Pipette: a training configurator for real-world clusters (DATE), https://arxiv.org/abs/2405.18093."""
