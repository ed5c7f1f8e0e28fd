"""Guo et al. 2024, Cephalo: Harnessing Heterogeneous GPU Clusters for Training Transformer Models, arXiv 2411.01075."""
