"""Power, energy and money of a served run, from the sums that the request loop keeps.

An instance spends its time in three ways: iterations that hold prompts, decode steps alone, and idle. Each of the first
two has a mean iteration; the work of that iteration's kernels (`WorkTable`) tells what a device draws
(`cost.serving_power`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from windtunnel.cost.clock import idle_w
from windtunnel.cost.provenance import weakest
from windtunnel.cost.serving_power import PowerCoefficients, Use, limit_w, power_coefficients, watts
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.iteration.iteration_model import IterationModel
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.iteration.power_work import WorkTable, work_table
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec

J_PER_KWH = 3.6e6
_LEVEL, _Z = 0.8, 1.2816
"""Share of cases that an interval holds, and the normal quantile of it (two-sided)."""
SUMS = (
    "busy_s",
    "iterations",
    "prompt_iterations",
    "prompt_tokens",
    "decode_tokens",
    "prompt_pairs",
    "kv_tokens",
)
"""Fields of `records.TOTAL` that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Iterations of one kind: how many, and the mean one (tokens over the instance; seconds as the loop took them)."""

    iterations: float
    tokens: float
    prompt_tokens: float
    pairs: float
    kv: float
    sequences: float
    seconds: float

    def use(self, work: WorkTable, iteration: IterationModel, device: DeviceSpec) -> Use:
        """What a device does in the mean iteration."""
        c, bandwidth = iteration.coefficients, device.memory_bytes_per_s
        seconds, matrix, moved = work.at(iteration.computed(self.tokens, self.prompt_tokens))
        window = self.sequences * min(self.kv / self.sequences, float(iteration.window)) if self.sequences else 0.0
        if (drafts := iteration.drafts) is not None:
            seconds += float(drafts.step_s(self.sequences) + drafts.prompt_s(self.prompt_tokens))
            moved += drafts.read_bytes if self.sequences else 0.0
        read = self.kv * iteration.decode_kv_s + window * iteration.window_kv_s
        read += self.sequences * iteration.attention.decode_state_s
        prompt = self.pairs * iteration.prefill_pair_s + self.prompt_tokens * iteration.prefill_token_s
        t = max(self.seconds, seconds + prompt + read)
        matrix += prompt * c.prefill_attention_fraction + self.sequences * work.row_matrix_s
        rate = min((moved + read * c.decode_kv_fraction * bandwidth) / t, bandwidth)
        waits = min(self._host_s(iteration) / t, 1.0)
        return Use((seconds + prompt) / t, read / t, min(matrix / t, 1.0), rate, waits)

    def _host_s(self, iteration: IterationModel) -> float:
        """Seconds of it in which the device waits for its host."""
        own = iteration.per_sequence_s - iteration.linear.head_row_s - iteration.attention.decode_state_s
        return iteration.coefficients.host_s + self.sequences * max(own, 0.0)


def phases(totals: Any, iteration: IterationModel, *, mixed: bool = True) -> tuple[Phase, Phase]:
    """Prompt iterations and decode steps of all instances, from sums of the loop.

    The loop keeps seconds in all; they are split as the mean iterations of both kinds would take them.

    Args:
        totals: records `records.TOTAL`, shape (N,).
        iteration: the closed form that the loop ran on.
        mixed: whether decode steps run in the iterations that hold prompts.
    """
    s = {k: float(np.sum(totals[k])) for k in SUMS}
    steps, prompts = s["iterations"], s["prompt_iterations"]
    batch = s["decode_tokens"] / steps if steps else 0.0
    kv = s["kv_tokens"] / steps if steps else 0.0
    together = min(steps, prompts) if mixed else 0.0
    share = together / prompts if prompts else 0.0

    def phase(count: float, tokens: float, prompt: float, pairs: float, cached: float, sequences: float) -> Phase:
        window = sequences * min(cached / sequences, float(iteration.window)) if sequences else 0.0
        seconds = iteration.seconds(
            tokens,
            pairs=pairs,
            prompt_tokens=prompt,
            kv=cached,
            window_kv=window,
            sequences=sequences,
            decoding=sequences,
        )
        return Phase(
            iterations=count,
            tokens=tokens,
            prompt_tokens=prompt,
            pairs=pairs,
            kv=cached,
            sequences=sequences,
            seconds=seconds if count else 0.0,
        )

    chunk = s["prompt_tokens"] / prompts if prompts else 0.0
    pairs = s["prompt_pairs"] / prompts if prompts else 0.0
    rows = batch * iteration.step_tokens
    first = phase(prompts, chunk + share * rows, chunk, pairs, share * kv, share * batch)
    second = phase(steps - together, rows, 0.0, 0.0, kv, batch)
    guess = first.iterations * first.seconds + second.iterations * second.seconds
    scale = s["busy_s"] / guess if guess else 0.0
    return _lasting(first, scale), _lasting(second, scale)


def _lasting(x: Phase, scale: float) -> Phase:
    return Phase(
        iterations=x.iterations,
        tokens=x.tokens,
        prompt_tokens=x.prompt_tokens,
        pairs=x.pairs,
        kv=x.kv,
        sequences=x.sequences,
        seconds=x.seconds * scale,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerReport:
    """Power, energy and money of one pool of instances. Watts of one device; joules of all.

    Watts and joules are None where the device's data sheet states no board power.
    """

    num_devices: int
    limit_w: float | None
    mean_w_per_device: float | None
    prompt_w: float | None
    """While iterations hold prompts; None where none did."""
    decode_w: float | None
    """While decode steps run alone."""
    idle_w: float | None
    prompt_share: float
    decode_share: float
    idle_share: float
    """Share of the time in which devices compute nothing."""
    energy_j: float | None
    energy_per_output_token_j: float | None
    energy_per_million_tokens_kwh: float | None
    """Per million tokens put out."""
    cost_per_million_output_tokens: float | None
    """In the currency of the device's price, None without one."""
    interval: dict[str, Any] | None
    """Interval of `mean_w_per_device`, given the run's times: level, low, high, basis, grade."""
    energy_interval: dict[str, Any] | None
    """Interval of `energy_per_output_token_j`, whose times are predicted too."""
    grades: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerModel:
    """One instance as its power is computed: what it serves, on what, and how long its iterations take."""

    model: ModelSpec
    cluster: ClusterSpec
    shape: Shape
    iteration: IterationModel
    """Closed form that the request loop ran on."""
    expert_skew: float = 0.85
    """Experts that routing treats equally, as a share of all."""
    work: WorkTable | None = None
    """Work table of the instance; absent: it is built from the other fields."""
    clock: Callable[[float], float] | None = None
    """Clock of an iteration by its tokens under a power cap (`PowerCap.clock`); absent: no cap slows iterations."""
    coefficients: PowerCoefficients | None = None
    """Shares of the board's power; absent: the device's."""


def power_report(
    instance: PowerModel,
    totals: Any,
    duration_s: float,
    *,
    output_tokens: float | None = None,
    mixed: bool = True,
    time_grade: str = "analytic",
) -> PowerReport:
    """Compute what a run drew and cost.

    Args:
        instance: each instance of the run; all are equal.
        totals: records `records.TOTAL`, one a lane (an instance, or one of the pp lanes of a pipeline).
        duration_s: seconds from the first arrival to the end of the last answer.
        output_tokens: tokens put out; absent: those of decode steps.
        mixed: whether decode steps run in iterations that hold prompts.
        time_grade: how well founded the run's times are.
    """
    cluster, device = instance.cluster, instance.cluster.device
    c = instance.coefficients or power_coefficients(device)
    lanes = int(np.size(totals["busy_s"]))
    devices = lanes * instance.shape.ranks
    drawn = _draw(instance, c, phases(totals, instance.iteration, mixed=mixed), lanes, duration_s)
    tokens = output_tokens if output_tokens is not None else float(np.sum(totals["decode_tokens"]))
    priced = cluster.price_per_device_hour is not None
    price = cluster.price_per_device_hour if priced else device.price_per_hour
    money = price * devices * duration_s / 3600.0 / tokens * 1e6 if price is not None and tokens else None
    grade = weakest([time_grade, c.grade if device.tdp_w else "assumed"])
    report = PowerReport(
        num_devices=devices,
        limit_w=None,
        mean_w_per_device=None,
        prompt_w=None,
        decode_w=None,
        idle_w=None,
        prompt_share=drawn.shares[0],
        decode_share=drawn.shares[1],
        idle_share=max(1.0 - sum(drawn.shares), 0.0),
        energy_j=None,
        energy_per_output_token_j=None,
        energy_per_million_tokens_kwh=None,
        cost_per_million_output_tokens=money,
        interval=None,
        energy_interval=None,
        grades={
            "mean_w_per_device": grade,
            "energy_j": grade,
            "energy_per_output_token_j": grade,
            "cost_per_million_output_tokens": weakest([time_grade, "measured" if priced else "assumed"]),
        },
    )
    if not device.tdp_w:
        return report
    limit, idle, each = limit_w(device, cluster.power_cap_w), idle_w(device), drawn.joules / tokens if tokens else None
    off = math.exp(_Z * c.energy_spread)
    return replace(
        report,
        limit_w=limit,
        mean_w_per_device=drawn.mean_w,
        prompt_w=drawn.phase_w[0],
        decode_w=drawn.phase_w[1],
        idle_w=idle,
        energy_j=drawn.joules,
        energy_per_output_token_j=each,
        energy_per_million_tokens_kwh=None if each is None else each * 1e6 / J_PER_KWH,
        interval=_interval(drawn.mean_w, idle, limit, c, drawn.shares),
        energy_interval=None if each is None else _band(each / off, each * off, c),
    )


@dataclass(frozen=True, slots=True)
class _Draw:
    """What the devices of a run draw: prompt iterations first, decode steps second."""

    phase_w: tuple[float | None, ...]
    """Watts of one device in each phase; None where the phase took no time."""
    shares: tuple[float, ...]
    """Share of the time that each phase takes."""
    joules: float
    """Energy of all devices, idle time included."""
    mean_w: float
    """Mean watts of one device."""


def _draw(instance: PowerModel, c: PowerCoefficients, both: Sequence[Phase], lanes: int, duration_s: float) -> _Draw:
    cluster, device, ranks = instance.cluster, instance.cluster.device, instance.shape.ranks
    iteration = instance.iteration
    work = instance.work or work_table(
        Layers(instance.model, cluster, instance.shape, iteration.coefficients, instance.expert_skew), iteration
    )
    whole = max(duration_s * lanes, sum(x.iterations * x.seconds for x in both))
    phase_w: list[float | None] = []
    shares, joules = [], 0.0
    for x in both:
        busy = x.iterations * x.seconds
        clock = instance.clock(x.tokens) if instance.clock else 1.0
        w = watts(device, c, x.use(work, iteration, device), cluster.power_cap_w, clock) if busy else None
        phase_w.append(w)
        shares.append(busy / whole if whole else 0.0)
        joules += (w or 0.0) * busy * ranks
    idle = idle_w(device)
    joules += idle * max(whole * (1.0 - sum(shares)), 0.0) * ranks
    mean = joules / (whole * ranks) if whole else idle
    return _Draw(tuple(phase_w), tuple(shares), joules, mean)


def for_held_share(report: PowerReport, share: float, duration_s: float) -> PowerReport:
    """Reduce a report of all devices all the time to the device time that was held.

    Args:
        report: power of all devices.
        share: device time that was held, as a share of all devices all the time.
        duration_s: seconds of the run.
    """
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
        report,
        cost_per_million_output_tokens=money,
        energy_j=energy,
        mean_w_per_device=energy / held_s,
        energy_per_output_token_j=times(report.energy_per_output_token_j),
        energy_per_million_tokens_kwh=times(report.energy_per_million_tokens_kwh),
        interval=None,
        energy_interval=None,
    )


def _interval(mean: float, idle: float, limit: float, c: PowerCoefficients, shares: Sequence[float]) -> dict[str, Any]:
    """80 % interval of the mean power: the spread of models left out of the fit, on the share of time under way."""
    spread = math.exp(_Z * c.spread)
    busy = sum(shares)
    active = (mean - (1.0 - busy) * idle) / busy if busy else 0.0
    low, high = ((1.0 - busy) * idle + busy * min(active * x, max(limit, active)) for x in (1.0 / spread, spread))
    return _band(low, high, c)


def _band(low: float, high: float, c: PowerCoefficients) -> dict[str, Any]:
    basis = f"models left out of the fit of {c.level}" if c.level != "default" else "devices without a fit"
    return {"level": _LEVEL, "low": low, "high": high, "basis": basis, "grade": c.grade}
