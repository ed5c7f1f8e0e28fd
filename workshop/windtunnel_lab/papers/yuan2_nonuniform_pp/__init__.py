"""Wu et al. 2023, YUAN 2.0: A Large Language Model with Localized Filtering-based Attention, arXiv 2311.15786."""
