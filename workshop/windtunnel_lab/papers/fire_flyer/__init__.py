"""An et al. 2024, Fire-Flyer AI-HPC: host reduction on PCIe servers (SC 2024), https://arxiv.org/abs/2408.14158."""
