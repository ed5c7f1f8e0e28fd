"""Measured rows as scenarios: reading a row, its targets, and the rows that ship with the package."""
