"""Mirror speculative decoding (Bhendawade et al. 2025)."""
