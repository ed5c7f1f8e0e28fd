"""What a finished search can still tell: why the best plan wins, what misses the limits nearly, and how stable it is."""
