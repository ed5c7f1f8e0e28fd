"""The tasks of one training step: compute, pipeline send and receive, data-parallel traffic, offload and update."""
