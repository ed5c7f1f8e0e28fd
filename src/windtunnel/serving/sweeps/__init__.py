"""Sweeps over the load and over any field of a scenario."""
