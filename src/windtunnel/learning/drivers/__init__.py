"""Drivers: lock-step, where the clock changes nothing, and arrivals, where completions decide what comes next."""
