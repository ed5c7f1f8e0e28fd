"""Prefill token equivalents (2026)."""
