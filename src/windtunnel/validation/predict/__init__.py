"""Predictions of measured rows: training, serving, power, kernels and collectives."""
