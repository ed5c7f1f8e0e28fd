"""Parallelism as passes over operators: one axis or policy a file."""
