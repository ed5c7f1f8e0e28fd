"""Measured rows: reading them, predicting them, and what the errors are."""
