"""Placements, one file each: which nodes a job gets."""

from windtunnel.clusters.placements.base import PLACEMENTS, Placement

__all__ = ["PLACEMENTS", "Placement"]
