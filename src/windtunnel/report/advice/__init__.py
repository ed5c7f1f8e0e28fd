"""Advice as terminal text and HTML."""
