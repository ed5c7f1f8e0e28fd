"""Xu et al. 2021, GSPMD: General and Scalable Parallelization for ML Computation Graphs, arXiv 2105.04663."""
