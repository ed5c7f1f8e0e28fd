"""What a run with a changing number of instances cost: devices are paid and powered while they are held."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.serving.autoscale.replicas import Replicas
from windtunnel.serving.autoscale.resize import Elastic
from windtunnel.serving.autoscale.resize_time import RECONFIGURE_S, Size, growth
from windtunnel.serving.autoscale.start_up import StartUp, start_up
from windtunnel.serving.event_loop.fleet import Fleet, stack_tables
from windtunnel.specs.autoscale import AutoscaleSpec

if TYPE_CHECKING:
    from windtunnel.serving.deployment import Deployment

_SHOWN = 500
"""Changes that a result keeps."""


def scaler(d: Deployment) -> tuple[Replicas | None, StartUp | None]:
    """Who scales a deployment, and the start-up time that it counts with; None without `autoscale`."""
    spec = d.serving.autoscale
    if spec is None or spec.method != "replicas":
        return None, None
    plan = d.pool.plan
    found = start_up(spec, d.instance.capacity.weights_bytes * plan.num_devices)
    return Replicas(spec, found.seconds, d.serving.pools[0].replicas, plan.pp), found


def sizes(d: Deployment, every: int) -> tuple[Fleet, Elastic, StartUp] | None:
    """An instance that changes its size: a fleet with one pool a size, of which the only lane is in one at a time.

    Args:
        d: resolved at its largest size.
        every: keep one event in that many.
    """
    from windtunnel.serving.deployment import prepare

    spec = d.serving.autoscale
    if spec is None or spec.method == "replicas":
        return None
    fleets, known = [], []
    for plan in spec.plans:
        axes = {"tp": plan.tp, "dp": plan.dp, "ep": plan.ep}
        pool = d.serving.pools[0]
        pool = pool.model_copy(update={"plan": pool.plan.model_copy(update=axes)})
        own = d.serving.model_copy(update={"autoscale": None, "pools": (pool,)})
        one = prepare(d.scenario.model_copy(update={"serving": own}))
        one = replace(one, concurrency=d.concurrency)
        fleets.append(one.fleet(every))
        known.append(Size(plan.num_devices, plan.tp, one.instance.capacity.weights_bytes))
    link = d.cluster.scale_up.bytes_per_s
    pairs = ((a, b) for a in range(len(known)) for b in range(a + 1, len(known)))
    steps = {(a, b): growth(spec, known[a], known[b], link) for a, b in pairs}
    limits = tuple(f.limits[0] for f in fleets)
    overlaps = tuple(f.overlaps[0] for f in fleets) if fleets[0].overlaps else ()
    fleet = Fleet(
        limits=limits,
        tables=stack_tables([f.tables[0] for f in fleets]),
        pool=np.zeros(1, np.int64),
        prefill_only=np.zeros(1, np.bool_),
        entries=1,
        kv_transfer=None,
        overlaps=overlaps,
    )
    longest = max(steps.values(), key=lambda step: step.seconds)
    return fleet, Elastic(spec, [size.devices for size in known], steps), StartUp(longest.seconds, _assumed(spec))


def _assumed(spec: AutoscaleSpec) -> tuple[tuple[str, str, str], ...]:
    if spec.method == "in_place" and spec.reconfigure_s is None:
        return (("serving.autoscale.reconfigure_s", f"{RECONFIGURE_S:g}", "groups of processes, capture of graphs"),)
    return () if spec.method == "in_place" else start_up(spec, 0.0).assumed


def scaling(control: Replicas | Elastic, found: StartUp, devices: int, begin: float, end: float) -> dict[str, Any]:
    """Figures of a run: instances over time, starts, and what was held.

    Args:
        control: after the run.
        found: start-up time.
        devices: of one instance.
        begin: first arrival, seconds; instances are held from 0 on.
        end: last answer.
    """
    held = control.instance_seconds(end)
    up = [n for _, n, _ in control.changes]
    if isinstance(control, Elastic):
        return {
            "start_up_s": found.seconds,
            "device_hours": held * devices / 3600.0,
            "devices_mean": held * devices / end if end > 0 else 0.0,
            "devices_min": min(up),
            "devices_max": max(up),
            "growths": [list(one) for one in control.growths[:_SHOWN]],
            "changes": [list(change) for change in control.changes[:_SHOWN]],
        }
    starts = sum(max(b[1] + b[2] - a[1] - a[2], 0) for a, b in zip(control.changes, control.changes[1:], strict=False))
    return {
        "start_up_s": found.seconds,
        "device_hours": held * devices / 3600.0,
        "instances_mean": held / end if end > 0 else 0.0,
        "instances_min": min(up),
        "instances_max": max(up),
        "starts": starts,
        "changes": [list(change) for change in control.changes[:_SHOWN]],
    }
