"""Training programs that plans are written for, one file each."""
