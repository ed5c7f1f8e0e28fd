"""One training step: lower, simulate, account, report."""
