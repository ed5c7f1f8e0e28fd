"""Polyakov, Dukhanov and Spirin 2025, TAGC (EuroMLSys), https://arxiv.org/abs/2504.05638."""
