"""Parallel plans of serving against heuristics (Lin et al. 2024)."""
