"""All requests of one group (samples of a problem, calls of a program) go to one instance.

The first of them chooses: the instance with fewest prompt and answer tokens of requests that have not ended. Unlike
`prefix_aware`, which takes the instance by the group's number, it looks at the load. A scheduler that knows programs
places them so: their calls share a prefix and end together.
"""

from __future__ import annotations

from windtunnel.serving.event_loop.instance_limits import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry
from windtunnel.systems import card

ROUTERS.add(
    "gang",
    RouterEntry(
        "A group's requests together, where load is least",
        f"Fu et al. 2024, {card('dynasor-certaindex').title}: gang scheduling of a program",
        Router.GANG,
    ),
)
