"""Redco: see `experiment` and `setting.yaml`."""
