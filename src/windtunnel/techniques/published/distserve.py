"""DistServe: prompts and answers on instances of their own, each phase with what its objective asks for.

Splits every mixed pool of two instances or more into one of each role; an answering instance fetches a cache when it
has room (`serving/event_loop/kv_transfer_events.py`, `serving/kv_transfer.py`). Axes by
phase and the number of instances are the scenario's,
or the planner's. What it costs: half of the instances compute no prompts, so that a burst of them waits longer; caches
cross the network.

Source: Zhong et al. 2024, sections 4.1 and 4.3.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, ServingPart, Technique
from windtunnel.techniques.serving import limits_of_split, split_pools, splits


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    transfer = {"mode": "whole", "first_token": "prefill", "reserve_first": False}
    return split_pools(serving, float(knobs["answer_share"]), transfer)


TECHNIQUE = Technique(
    id="distserve",
    knobs={"answer_share": Knob(0.5, 0.01, 0.99, "of the instances, for answers")},
    edits=(("run", "placement"),),
    applies_to=splits,
    serving=ServingPart(settings=_settings),
    saves="decode steps that wait for prompts",
    resource="waiting",
    where={"vllm": "--kv-transfer-config", "sglang": "--disaggregation-mode"},
    limits=limits_of_split("answer_share"),
)
