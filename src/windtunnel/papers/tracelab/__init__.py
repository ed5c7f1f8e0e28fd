"""TraceLab (2026)."""
