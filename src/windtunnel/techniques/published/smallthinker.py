"""What `smallthinker.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.program.segment import Segment
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import ServingLayers, served

QUEUE = "drives"


def _layers(layers: ServingLayers, knobs: dict[str, Any]) -> Segment | None:
    """Reads of a layer's experts begin with the layer; products wait for theirs."""
    launches = layers.launches(layers.batch)
    if not any(x.tag == "storage" for x in launches) or knobs["router"] == "after_attention":
        return None
    out, last = Segment("experts read ahead", "F", []), list[int]()
    for _ in range(layers.count):
        start, reads = list(last), list[int]()
        for launch in launches:
            if launch.tag == "storage":
                read = launch.following([*reads[-1:]] or start)
                read.alone_s *= 1.0 + float(knobs["wrong"])
                read.stream = QUEUE
                reads.append(out.append(read))
        waiting = iter(reads)
        for launch in launches:
            if launch.tag == "storage":
                last = [*last, next(waiting)]
                continue
            last = [out.append(launch.following(last))]
    return out


def applies(scenario: Scenario) -> str | None:
    """Some experts have to be on drives."""
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    return None if scenario.serving.expert_storage else "all experts are in memory (no serving.expert_storage)"


applies_to = applies
serving = ServingPart(layers=_layers)
