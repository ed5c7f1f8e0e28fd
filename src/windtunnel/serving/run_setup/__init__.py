"""What a run adds to its deployment: autoscaling, KV tiers, rules written in Python."""
