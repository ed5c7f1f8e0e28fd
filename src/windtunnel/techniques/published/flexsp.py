"""Groups of unlike sizes, chosen for every micro-batch by a mixed-integer linear programme.

The mechanism is `plan.sequence_groups: solved`. What it costs: ranks that stand empty where documents do not fill
groups.
"""

from __future__ import annotations

from windtunnel.techniques.base import Technique
from windtunnel.techniques.sequence_groups import EDITS, grouped, limits_of_groups, unlike

TECHNIQUE = Technique(
    id="flexsp",
    edits=EDITS,
    applies_to=unlike,
    plan=grouped("solved"),
    saves="exchange of short documents",
    resource="network",
    limits=limits_of_groups(vanishes=0.05),
)
