"""SCALE: selective resource allocation (Xiao et al. 2025)."""
