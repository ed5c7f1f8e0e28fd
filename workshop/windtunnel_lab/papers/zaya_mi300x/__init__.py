"""ZAYA1 on MI300X: see `experiment` and `setting.yaml`."""
