"""PyTorch Distributed: Experiences on Accelerating Data Parallel Training (Li et al. 2020)."""
