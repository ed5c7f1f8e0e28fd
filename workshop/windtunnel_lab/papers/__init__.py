"""Published systems as experiments: a folder each, with `claims.yaml` (settings and claims) and `experiment.py`."""
