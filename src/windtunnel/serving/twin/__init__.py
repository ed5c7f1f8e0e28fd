"""What the plain loop (`serving/reference.py`) is made of: requests, instances, and the rules to override."""
