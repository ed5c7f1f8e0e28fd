"""Scenarios from files to checked records, in five steps: read, set, expand, side files, validate and explain."""
