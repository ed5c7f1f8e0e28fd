"""Hybrid data parallelism: a document takes as many ranks as it needs, and work is dealt by time.

Short documents stay on one rank and exchange nothing; the mechanism is `plan.sequence_groups: by_length`. What it
costs: ranks that wait for one another where parameters are sharded (ZeRO-3), since their micro-batches are unlike.
"""

from __future__ import annotations

from windtunnel.techniques.base import Technique
from windtunnel.techniques.sequence_groups import EDITS, grouped, limits_of_groups, unlike

TECHNIQUE = Technique(
    id="bytescale",
    edits=EDITS,
    applies_to=unlike,
    plan=grouped("by_length"),
    saves="exchange of short documents",
    resource="network",
    limits=limits_of_groups(vanishes=0.02),
)
