"""R2E-Gym: hybrid test-time scaling (Jain et al. 2025)."""
