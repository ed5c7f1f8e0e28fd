"""How trajectories branch, one file each."""
