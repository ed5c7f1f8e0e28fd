"""Pricing: one rank's operators become launches, and launches become the seconds of a block."""
