"""What the plain loop (`serving/event_loop/reference.py`) is made of: requests, instances, and the rules to override."""
