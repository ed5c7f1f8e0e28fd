"""Several answers to one prompt as requests: each step of each trajectory is one, and goes on from the one before."""

from windtunnel.serving.traffic.trajectories.cache_use import mean_held
from windtunnel.serving.traffic.trajectories.draw import draw

__all__ = ["draw", "mean_held"]
