"""Another architecture: each device runs a narrow layer of its own, and the sum of all is needed one sub-layer later.

A layer consists of as many parallel layers as there are tensor ranks P, each of width d/√P, so that parameters and
products stay what they were. Attention feeds the MLP of the same device; one sum over all devices ends the layer
instead of two, it is √P times smaller, and only the next layer's MLP waits for it: it travels behind that attention.

What it costs: attention has √P times the heads (its work is in proportion to the width, not to its square), and so has
the cache; activations of the MLP are wider. The model has to be trained in this form.

Source: Prabhakar, Zhang & Wentzlaff 2024, sections 3 and 4.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

from windtunnel.program.segment import Launch, Segment
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, ServingPart, Technique
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


def _applies(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    sizes = [pool.plan.tp for pool in scenario.serving.pools] or [scenario.plan.tp]
    return None if max(sizes) > 1 else "there are no tensor ranks to run parallel layers on"


TECHNIQUE = Technique(
    id="kraken",
    knobs={"attention_width": Knob(1.0, 0.25, 16.0, "heads of a parallel layer over those of its width", given=True)},
    edits=(("pair", "iteration"),),
    applies_to=_applies,
    serving=ServingPart(layers=_layers),
    saves="scale-up traffic and norms",
    resource="scale-up",
    quality="another model, which has to be trained; reported perplexity is that of a standard one of its size",
)
