"""What a run with a changing number of instances cost: devices are paid and powered while they are held."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from windtunnel.serving.autoscale.replicas import Replicas
from windtunnel.serving.autoscale.start_up import StartUp, start_up
from windtunnel.serving.power import PowerReport

if TYPE_CHECKING:
    from windtunnel.serving.deployment import Deployment

_SHOWN = 500
"""Changes that a result keeps."""


def scaler(d: Deployment) -> tuple[Replicas | None, StartUp | None]:
    """Who scales a deployment, and the start-up time that it counts with; None without `autoscale`."""
    spec = d.serving.autoscale
    if spec is None:
        return None, None
    plan = d.pool.plan
    found = start_up(spec, d.instance.capacity.weights_bytes * plan.num_devices)
    return Replicas(spec, found.seconds, d.serving.pools[0].replicas, plan.pp), found


def scaling(control: Replicas, found: StartUp, devices: int, begin: float, end: float) -> dict[str, Any]:
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
    starts = sum(max(b[1] + b[2] - a[1] - a[2], 0) for a, b in zip(control.changes, control.changes[1:], strict=False))
    return {
        "start_up_s": found.seconds, "device_hours": held * devices / 3600.0,
        "instances_mean": held / end if end > 0 else 0.0, "instances_min": min(up), "instances_max": max(up),
        "starts": starts, "changes": [list(change) for change in control.changes[:_SHOWN]],
    }  # fmt: skip


def paid(report: PowerReport, share: float, duration_s: float) -> PowerReport:
    """A report of all devices all the time → of those that were held, a share of device-seconds."""
    money = report.cost_per_million_output_tokens
    money = None if money is None else money * share
    if report.energy_j is None or report.idle_w is None or not report.energy_j:
        return replace(report, cost_per_million_output_tokens=money)
    off = report.idle_w * report.num_devices * duration_s * (1.0 - share)
    energy = report.energy_j - off
    ratio = energy / report.energy_j

    def times(value: float | None) -> float | None:
        return None if value is None else value * ratio

    held_s = report.num_devices * duration_s * share
    return replace(
        report, cost_per_million_output_tokens=money, energy_j=energy, mean_w_per_device=energy / held_s,
        energy_per_output_token_j=times(report.energy_per_output_token_j),
        energy_per_million_tokens_kwh=times(report.energy_per_million_tokens_kwh), interval=None, energy_interval=None,
    )  # fmt: skip
