"""Parts of the loop in plain Python (`../reference.py`): requests, instances, and the rules to override."""
