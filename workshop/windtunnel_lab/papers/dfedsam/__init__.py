"""DFedSAM (Shi et al. 2023), https://arxiv.org/abs/2302.04083."""
