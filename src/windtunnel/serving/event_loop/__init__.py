"""The loop over requests: jitted kernels, their twin in plain Python, and what both read."""
