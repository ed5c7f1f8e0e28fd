"""Seconds, bytes and watts of operators: one file per kind, arrays in and out."""
