"""Intervals of step time and memory, and of the difference between two plans."""
