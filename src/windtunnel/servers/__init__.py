"""What the servers of this package share: limits of HTTP, JSON bodies, and processes that work in fair turns."""
