"""OneFlow: see `experiment` and `setting.yaml`."""
