"""Sleep-time compute: work over contexts at the price of idle devices, shared by the queries on them.

Source: Lin et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="sleep-time-compute",
    strategy="sleep_time",
    knobs={
        "queries": Knob(10, 1, 1000000, doc="queries on a context"),
        "query_share": Knob(0.2, 0.0, 1.0, doc="tokens of a query, in those that it needs without sleep"),
        "sleep_tokens": Knob(5000, 0, 1000000, doc="tokens written in a sleep over one context"),
    },
    edits=(("programs", "strategy sleep_time"),),
    saves="tokens at query time",
    resource="compute",
    quality="the share of tokens is stated at equal accuracy",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
