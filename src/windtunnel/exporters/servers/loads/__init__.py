"""Load generators that repeat a scenario's traffic; each file writes the command of one."""
