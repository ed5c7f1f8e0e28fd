"""What a finished search can still tell: why the best plan wins, what nearly fits, how stable the answer is."""
