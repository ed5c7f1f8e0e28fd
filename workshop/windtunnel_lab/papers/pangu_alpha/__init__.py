"""Zeng et al. 2021, PanGu-α: Large-scale Autoregressive Pretrained Chinese Language Models, arXiv 2104.12369."""
