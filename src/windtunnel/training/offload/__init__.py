"""Tensors outside the device: memory tiers and the optimizer on the host."""
