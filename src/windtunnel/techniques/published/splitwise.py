"""Splitwise: some machines compute prompts, the others make tokens; caches move layer by layer while prompts run.

Splits every mixed pool of two instances or more into one of each role and switches the transfer on
(`serving/event_loop/kv_transfer_events.py`, `serving/kv_transfer.py`). What it costs:
caches cross the network and are held twice for a while;
a machine of one kind waits while the other kind is busy.

Source: Patel et al. 2024, sections 4.1 (pools, shortest queue) and 4.3 (transfer by layer).
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, ServingPart, Technique
from windtunnel.techniques.serving import limits_of_split, split_pools, splits


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    transfer = {"mode": "layers", "first_token": "prefill", "reserve_first": True}
    return split_pools(serving, float(knobs["token_share"]), transfer)


TECHNIQUE = Technique(
    id="splitwise",
    knobs={"token_share": Knob(0.5, 0.01, 0.99, "of the instances, for tokens")},
    edits=(("run", "placement"),),
    applies_to=splits,
    serving=ServingPart(settings=_settings),
    saves="decode steps that wait for prompts",
    resource="waiting",
    where={"vllm": "--kv-transfer-config", "sglang": "--disaggregation-mode"},
    limits=limits_of_split("token_share"),
)
