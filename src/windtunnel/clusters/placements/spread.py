"""A job takes one device after the other on the node with most that idle."""

from windtunnel.clusters.event_loop.records import SPREAD
from windtunnel.clusters.placements.base import PLACEMENTS, Placement

PLACEMENTS.add(
    "spread",
    Placement(
        name="One device after the other on the emptiest node",
        source="Kubernetes, NodeResourcesFit with LeastAllocated",
        kind=SPREAD,
    ),
)
