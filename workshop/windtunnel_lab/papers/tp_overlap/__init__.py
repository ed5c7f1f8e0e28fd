"""Overlap of tensor-parallel communication with the GEMMs beside it (Wang et al. 2023 and measured implementations)."""
