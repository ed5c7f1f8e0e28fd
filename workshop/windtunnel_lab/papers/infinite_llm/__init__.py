"""Cache lent between instances (Lin et al. 2024)."""
