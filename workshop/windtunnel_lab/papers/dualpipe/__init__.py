"""DualPipe: see `experiment` and `setting.yaml`."""
