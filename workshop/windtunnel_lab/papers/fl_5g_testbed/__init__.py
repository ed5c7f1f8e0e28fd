"""Federated learning over 5G, WiFi and Ethernet (2025), https://arxiv.org/abs/2504.04678."""
