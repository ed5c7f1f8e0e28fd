"""Dynasor and Certaindex (Fu et al. 2024)."""
