"""Prompt machines and token machines, of one kind or two (Patel et al. 2024)."""
