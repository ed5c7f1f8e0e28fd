"""Device memory of a step: static tensors, the trace of a layer and of a stage, what the allocator reserves."""
