"""Barham et al. 2022, Pathways: Asynchronous Distributed Dataflow for ML (MLSys 2022), arXiv 2203.12533."""
