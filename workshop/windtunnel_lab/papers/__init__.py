"""Published systems as experiments: one folder a paper with its `setting.yaml`, its claims and an `experiment.py`."""
