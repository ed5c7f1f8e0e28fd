"""Blocks of each model family."""
