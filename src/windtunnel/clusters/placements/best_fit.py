"""A job takes the node with least room next to it, or those with most room where no single one has enough."""

from windtunnel.clusters.event_loop.records import BEST_FIT
from windtunnel.clusters.placements.base import PLACEMENTS, Placement

PLACEMENTS.add(
    "best_fit",
    Placement(
        name="The fewest nodes that have room now", source="Johnson 1974, best fit; Gavel, Pollux", kind=BEST_FIT
    ),
)
