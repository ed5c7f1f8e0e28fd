"""Four architectures on eight MI325X (Georgiou 2026)."""
