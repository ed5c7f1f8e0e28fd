"""Delay scheduling: a job waits for as few nodes as can hold it, and after a time takes what has room.

While it waits, jobs behind it may start, as far as the policy lets them. The time counts from when the job joined the
queue, so that one that was preempted or has failed waits for good nodes anew. What a job on more nodes loses is
`jobs.spread_speed`, or what its scenario says.
"""

from windtunnel.clusters.event_loop.records import BEST_FIT, CONSOLIDATED
from windtunnel.clusters.placements.base import PLACEMENTS, Placement

PLACEMENTS.add(
    "delay",
    Placement(
        name="As few nodes as can hold the job; after a time, what has room",
        source="Zaharia et al., EuroSys 2010, section 4 (waits for local slots); for GPUs Jeon et al., ATC 2019",
        kind=CONSOLIDATED,
        relaxed=BEST_FIT,
        knobs={"wait_s": 600.0},
    ),
)
