"""Saad-Falcon et al. 2025, Intelligence per Watt: local models beside the cloud, https://arxiv.org/abs/2511.07885."""
