"""Pieces that lie apart are packed by one kernel, not copied one by one, and leave by the method that is soonest.

Written for strided MPI datatypes of device memory (`network.packing`: pieces, methods and their model). In a scenario
it acts where blocks of a cache go from one instance to another: instead of a copy for each block of each layer
(`serving.transfer.pieces: copied`) a kernel packs them into a buffer, which is sent and unpacked (`packed`).

What it costs: two passes over memory on each side before and after the message, where copies could have kept pace with
a slow wire.

Source: Pearson et al. 2021, sections 3 to 5.
"""

from __future__ import annotations

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import ServingPart, Technique
from windtunnel.techniques.serving import Knobs, served


def _packed(serving: ServingSpec, _: Knobs) -> ServingSpec:
    return serving.model_copy(update={"transfer": serving.transfer.model_copy(update={"pieces": "packed"})})


def _applies(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    apart = any(pool.role == "decode" for pool in scenario.serving.pools)
    return None if apart else "no cache goes from one instance to another"


TECHNIQUE = Technique(
    id="tempi",
    edits=(("run", "transfer"),),
    applies_to=_applies,
    serving=ServingPart(settings=_packed),
    saves="copies of small pieces",
    resource="host",
)
