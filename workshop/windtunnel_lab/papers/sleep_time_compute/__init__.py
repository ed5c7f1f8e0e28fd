"""Sleep-time compute (Lin et al. 2025)."""
