"""Serving predictions, comparisons and sweeps as terminal text, figures and HTML."""
