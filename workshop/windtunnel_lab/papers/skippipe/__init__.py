"""Blagoev et al. 2025, SkipPipe: Partial and Reordered Pipelining for Training LLMs in Heterogeneous Networks."""
