"""Tables of a simulated step: its plan, its pipeline stages and its groups of devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.tables import Timeline
from windtunnel.specs.plan import CarriedSwitches
from windtunnel.specs.switches import switches_of
from windtunnel.training.accounting.breakdown import last_compute_s
from windtunnel.training.results.records import MemoryReport
from windtunnel.training.step_setup import PreparedStep


def plan_fields(x: PreparedStep) -> dict[str, Any]:
    """The resolved plan as plain values."""
    plan = x.plan
    out: dict[str, Any] = {name: getattr(plan, name) for name in ResolvedPlan.__slots__ if name != "switches"}
    for name, switch in switches_of(CarriedSwitches).items():
        value = getattr(plan.switches, name)
        if value is not None or switch.listed_when_absent:
            out[name] = value
    out["recompute"] = plan.recompute.model_dump(mode="json")
    out["offload"] = plan.offload.model_dump(mode="json")
    out["levels"] = plan.levels and plan.levels.model_dump(mode="json")
    out["compression"] = plan.compression.model_dump(mode="json")
    out["local_steps"] = plan.local_steps and plan.local_steps.model_dump(mode="json")
    out["stage_layers"] = list(plan.stage_layers)
    out["order"] = list(plan.order)
    if x.groups:
        out["group_axis"] = x.group_axis
    if x.groups and x.group_axis == "dp":
        out["batch_shares"] = [g.plan.m for g in x.groups]
    return out


def stage_rows(x: PreparedStep, memory: MemoryReport, *, grouped: bool) -> tuple[dict[str, Any], ...]:
    """A row for each pipeline stage of one group; `grouped`: rows name the group."""
    stage_of = x.schedule.placement[:, 0]
    out: list[dict[str, Any]] = []
    for s in x.own_stages.tolist():
        mine = np.flatnonzero(stage_of == s)
        out.append(
            ({"group": x.cluster.name} if grouped else {})
            | {
                "stage": s,
                "layers": int(x.stages.layers[mine].sum()),
                "parameters": float((x.stages.dense_params + x.stages.expert_params)[mine].sum()),
                "forward_s": float(x.stages.seconds[0, mine].sum()),
                "backward_s": float(x.stages.seconds[1:, mine].sum()),
                "memory_bytes": memory.per_stage_allocated_bytes[s] if memory.per_stage_allocated_bytes else 0.0,
            }
        )
    return tuple(out)


def group_row(x: PreparedStep, memory: MemoryReport, timeline: Timeline) -> dict[str, Any]:
    """One group of a heterogeneous cluster in a result."""
    return {
        "cluster": x.cluster.name,
        "device": x.cluster.device.id,
        "devices": x.cluster.num_devices,
        "replicas": x.plan.dp,
        "stages": len(x.own_stages),
        "micro_batches": x.plan.m,
        "sequences": x.training.global_batch,
        "busy_s": last_compute_s(x.program, timeline, passes_only=True),
        "peak_memory_reserved_bytes": memory.peak_reserved_bytes,
        "memory_capacity_bytes": memory.capacity_bytes,
        "memory_fits": memory.fits,
    }
