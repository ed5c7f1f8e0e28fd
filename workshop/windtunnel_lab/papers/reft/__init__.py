"""REFT: snapshots in host memory with parity over groups of nodes."""
