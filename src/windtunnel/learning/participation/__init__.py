"""Who takes part: everyone, a sample, and for how many of them a step waits; one file each."""
