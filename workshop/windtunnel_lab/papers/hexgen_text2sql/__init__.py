"""HexGen-Text2SQL (Peng et al. 2025)."""
