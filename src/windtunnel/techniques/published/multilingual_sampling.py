"""Five samples and a judge that reads all of them.

One call chooses among all samples, in place of one for each.

What it costs: n times the tokens and a call that reads all of them.

Source: Khairi et al. 2025 (arXiv 2506.20544).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.programs_limits import ASSUMED, more_accurate

TECHNIQUE = Technique(
    id="multilingual-sampling",
    strategy="multilingual_sampling",
    knobs={
        "n": Knob(5, 1, 1000, doc="samples of each problem"),
    },
    edits=(("programs", "strategy multilingual_sampling"),),
    saves="wrong attempts",
    resource="compute",
    quality=ASSUMED,
    limits=more_accurate(),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
