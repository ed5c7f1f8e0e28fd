"""Figures of a simulated step: power, warnings, and the tables of stages and groups."""
