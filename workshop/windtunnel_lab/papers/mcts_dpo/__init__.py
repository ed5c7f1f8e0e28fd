"""Monte Carlo tree search for preferences (Xie et al. 2024)."""
