"""What `kraken.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

from windtunnel.program.segment import Launch, Segment
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import ServingLayers, chained, served


def _narrow(layers: ServingLayers, wider: float) -> tuple[list[Launch], list[Launch], Launch] | None:
    """(up to the MLP, the MLP, the sum) of one of the parallel layers; None where a layer is not of this form."""
    root = sqrt(layers.tp)
    whole = layers.launches(layers.batch)
    less = {x.name: x for x in layers.launches(layers.batch.part(1.0 / root))}
    more = {x.name: x for x in layers.launches(layers.batch.part(root))}
    sums = [i for i, x in enumerate(whole) if x.tag == "tp"]
    if len(sums) != 2 or any(x.tag == "ep" for x in whole):
        return None
    out: list[Launch] = []
    for x in whole:
        if x.tag == "tp" or "_norm" in x.name:
            out.append(less[x.name])
        elif "_act" in x.name:
            out.append(more[x.name])
        elif x.tag == "attention":
            out.append(replace(x, alone_s=x.alone_s * root * wider, hbm_bytes=x.hbm_bytes * root * wider))
        else:
            out.append(x)
    return out[: sums[0]], out[sums[0] + 1 : sums[1]], out[sums[1]]


def _layers(layers: ServingLayers, knobs: dict[str, Any]) -> Segment | None:
    if layers.tp == 1:
        return None
    parts = _narrow(layers, float(knobs["attention_width"]))
    if parts is None:
        return None
    attention, mlp, total = parts
    out, last, summed = Segment("parallel layers", "F", []), list[int](), list[int]()
    for _ in range(layers.count):
        last = chained(out, mlp, [*chained(out, attention, last), *summed])
        summed = chained(out, [total], last)
    return out


def applies_to(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    sizes = [pool.plan.tp for pool in scenario.serving.pools] or [scenario.plan.tp]
    return None if max(sizes) > 1 else "there are no tensor ranks to run parallel layers on"


serving = ServingPart(layers=_layers)
