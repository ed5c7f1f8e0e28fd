"""Ring attention the other way round: queries move ahead and partial outputs come back, keys and values stay.

Two flows in opposite directions use links that a ring of keys and values leaves idle, where ranks have links of their
own to one another or a port wider than one message. What it costs: queries and outputs are wider than keys and values
where heads share these (GQA), a buffer a peer, fp32 statistics.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

CASE = {
    "model": "meta-llama/Llama-2-7b-hf",
    "cluster": {
        "device": "mi300x",
        "nodes": 1,
        "devices_per_node": 8,
        # narrow links to each peer: the ring waits for its one
        "scale_up": {"id": "mesh", "family": "generic", "bytes_per_s": 56e9, "latency_s": 2e-6, "topology": "mesh"},
    },
    "training": {"seq_len": 32768, "global_batch": 2, "framework": "generic", "attention": "flash2"},
    "plan": {"mbs": 1, "cp": 4, "dp": "auto", "cp_kind": "ring", "recompute": {"policy": "full"}},
}


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    change: dict[str, Any] = {"cp_kind": "token_ring"}
    if knobs["degree"]:
        change |= {"cp": knobs["degree"], "dp": "auto"}
    return plan.model_copy(update=change)


TECHNIQUE = Technique(
    id="tokenring",
    knobs={"degree": Knob(0, 0, 1024, "ranks of a sequence; 0: the plan's cp")},
    edits=(("plan", "cp"),),
    plan=_plan,
    saves="scale-up",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
