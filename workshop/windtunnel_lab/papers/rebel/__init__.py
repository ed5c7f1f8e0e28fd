"""REBEL: reranking beyond relevance (LeVine and Varjavand 2025)."""
