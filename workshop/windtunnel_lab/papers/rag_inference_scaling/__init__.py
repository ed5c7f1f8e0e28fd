"""Inference scaling for long-context RAG (Yue et al. 2024)."""
