"""Tensors that lie outside the device: memory tiers of the node, and the optimizer step on the host."""
