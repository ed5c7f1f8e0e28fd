"""Your own machine: micro-benchmarks to a device profile, profiles of other sources, real small steps.

PyTorch is an extra (`pip install windtunnel[torch]`), imported by what runs something: `bench`, `ranks`, `real` and
`transformer`. Everything that turns measurements into profiles works without it.
"""
