"""Three-level ZeRO for Frontier: weights cut over a GPU's two dies, gradients over a node, optimizer state over all.

What it costs: memory for weights and gradients, and once a step updated weights and gradients cross the nodes.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec, ShardLevels
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.published.zero import applies


def _plan(plan: PlanSpec, knobs: dict[str, Any]) -> PlanSpec:
    levels = ShardLevels(
        params=knobs["weights"] or None,
        params_again=knobs["weights_again"] or None,
        gradients=knobs["gradients"] or None,
        gather_bits=knobs["gather_bits"],
        reduce_bits=knobs["reduce_bits"],
    )
    return plan.model_copy(update={"zero": 3, "levels": levels})


TECHNIQUE = Technique(
    id="frontier-zero-topo",
    knobs={
        "weights": Knob(2, 0, 65536, "ranks that weights are cut over; 0: all"),
        "weights_again": Knob(0, 0, 65536, "ranks of a second copy for backward (ZeRO++); 0: none"),
        "gradients": Knob(8, 0, 65536, "ranks that gradients are cut over between micro-batches; 0: all"),
        "gather_bits": Knob(8, doc="of a weight on its way to forward", choices=(4, 8, 16)),
        "reduce_bits": Knob(4, doc="of a gradient on its way", choices=(4, 8, 16, 32)),
    },
    edits=(("plan", "levels"),),
    quality="weights and gradients travel in few bits",
    lossless={"gather_bits": 16, "reduce_bits": 16},
    applies_to=applies,
    plan=_plan,
    saves="scale-out",
    resource="scale-out",
    where={"deepspeed": "zero_hpz_partition_size, zero_quantized_weights, zero_quantized_gradients (ZeRO++)"},
)
