"""Strategies of inference-time compute on the terminal and as a report."""
