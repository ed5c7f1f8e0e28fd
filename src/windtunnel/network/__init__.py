"""Networks and collectives: where groups sit, what an algorithm moves, how long it takes."""

from __future__ import annotations

from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import GroupPlacement, Mesh, placement
from windtunnel.network.model import NetworkModel
from windtunnel.network.result import CollectiveTime

__all__ = ["CollectiveTime", "GroupPlacement", "Mesh", "NetworkCoefficients", "NetworkModel", "placement"]
