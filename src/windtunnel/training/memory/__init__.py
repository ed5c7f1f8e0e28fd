"""Device memory of a step: static tensors, traces of layers and stages, what the allocator reserves, the report."""
