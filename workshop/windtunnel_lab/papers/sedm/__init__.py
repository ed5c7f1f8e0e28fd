"""SEDM (Xu et al. 2025)."""
