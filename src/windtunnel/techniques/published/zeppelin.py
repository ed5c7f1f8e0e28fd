"""Attention laid out by zones of length, everything else by tokens.

The mechanism is `plan.sequence_groups: zones`. What it costs: tokens that move between ranks before and after
attention, and all ranks meet in every micro-batch.
"""

from __future__ import annotations

from windtunnel.techniques.base import Technique
from windtunnel.techniques.sequence_groups import EDITS, grouped, limits_of_groups, unlike

TECHNIQUE = Technique(
    id="zeppelin",
    edits=EDITS,
    applies_to=unlike,
    plan=grouped("zones"),
    saves="exchange of short documents",
    resource="network",
    limits=limits_of_groups(vanishes=0.05),
)
