"""Ding et al. 2025, VMR2L: rescheduling virtual machines (EuroSys 2025), https://arxiv.org/abs/2505.17359."""
