"""Your own machine: micro-benchmarks to a device profile, profiles from other sources, real small steps beside predictions.

PyTorch is an extra (`pip install windtunnel[torch]`) and is imported by the files that run something: `bench`, `ranks` and
`real`. Everything that turns measurements into profiles works without it.
"""
