"""A job waits for as few nodes as can hold it: whole ones, and for what is left the one with least room."""

from windtunnel.clusters.event_loop.records import CONSOLIDATED
from windtunnel.clusters.placements.base import PLACEMENTS, Placement

PLACEMENTS.add(
    "consolidated",
    Placement(
        name="As few nodes as can hold the job",
        source="Gu et al., NSDI 2019 (Tiresias), section 4.2",
        kind=CONSOLIDATED,
    ),
)
