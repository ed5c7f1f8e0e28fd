"""Deficit longest prefix match, and D²LPM over several instances.

The mechanisms are `serving/queues/dlpm.py` and `serving/routers/d2lpm.py`; tenants are `traffic.tenants`.

Source: Cao et al. 2025, algorithms 1 and 2.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.serving import ServingPart, served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    weights = {name: knobs[name] for name in ("input_weight", "output_weight")}
    serving = with_pools(serving, lambda _: {"queue": {"dlpm": {**weights, "quantum": knobs["quantum"]}}})
    if not knobs["distributed"]:
        return serving
    return serving.model_copy(update={"router": {"d2lpm": {**weights, "quantum": knobs["worker_quantum"]}}})


TECHNIQUE = Technique(
    id="dlpm",
    knobs={
        "quantum": Knob(10_000.0, 1.0, 1e9, "weighted tokens that a refill adds to a tenant's credit"),
        "distributed": Knob(True, doc="route by credit and match too (D²LPM)"),
        "worker_quantum": Knob(50_000.0, 1.0, 1e9, "the same on each instance, for the router"),
        "input_weight": Knob(1.0, 0.0, 1e6, "service of a prompt token that is computed", given=True),
        "output_weight": Knob(2.0, 0.0, 1e6, "service of an answer token", given=True),
    },
    edits=(("run", "queue"), ("run", "router")),
    applies_to=served,
    serving=ServingPart(settings=_settings),
    saves="prompt tokens that would be computed again",
    resource="compute",
)
