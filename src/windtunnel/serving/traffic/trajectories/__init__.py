"""Several answers to one prompt as requests: each step of each trajectory is one, and goes on from the one before."""

from windtunnel.serving.traffic.trajectories.draw import draw
from windtunnel.serving.traffic.trajectories.held import mean_held

__all__ = ["draw", "mean_held"]
