"""Heterogeneous agentic AI (Asgar et al. 2025)."""
