"""Virtual token counter: of the tenants in line, the one that was served least goes first.

The mechanism is `serving/queues/vtc.py`; tenants and their weights are `traffic.tenants`.

Source: Sheng et al. 2024, sections 4.1 to 4.3.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.serving import ServingPart, served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    return with_pools(serving, lambda _: {"queue": {"vtc": dict(knobs)}})


TECHNIQUE = Technique(
    id="vtc",
    knobs={
        "input_weight": Knob(1.0, 0.0, 1e6, "service of a prompt token", given=True),
        "output_weight": Knob(2.0, 0.0, 1e6, "service of an answer token", given=True),
        "lift": Knob(True, doc="lift counters after a pause; false: least counter first (LCF)"),
    },
    edits=(("run", "queue"),),
    applies_to=served,
    serving=ServingPart(settings=_settings),
    saves="waiting of tenants that send little",
    resource="waiting",
)
