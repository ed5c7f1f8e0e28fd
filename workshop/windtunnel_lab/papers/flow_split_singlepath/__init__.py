"""Addanki, Goyal & Marinos 2024, single paths and few cut flows, https://arxiv.org/abs/2407.00550."""
