"""What a serving prediction returns: TTFT, TPOT, goodput, power, per pool, tenant and task."""
