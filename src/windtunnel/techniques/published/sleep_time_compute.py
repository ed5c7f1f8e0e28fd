"""Sleep-time compute: work over contexts at the price of idle devices, shared by the queries on them.

Source: Lin et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique

TECHNIQUE = Technique(
    id="sleep-time-compute",
    family="decode-tts",
    summary="contexts are worked on while devices are idle, queries share the notes",
    paper=Paper(
        "Sleep-time Compute: Beyond Inference Scaling at Test-time",
        2025,
        "https://arxiv.org/abs/2504.13171",
        "Lin, Snell, Wang, Packer, Wooders, Stoica, Gonzalez",
        "arXiv 2504.13171",
    ),
    levels=("programs",),
    status="partial",
    missing="how many tokens a sleep takes for which accuracy is data",
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
    experiment="sleep_time_compute",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
