"""To backtrack or not to backtrack (Qin et al. 2025)."""
