"""Watts, joules and money of a served run, from the sums that the request loop keeps.

Time of an instance falls into three: iterations that hold prompts, decode steps alone, nothing to do. Each has its mean
iteration; what its kernels take of it (`WorkTable`) says what a device draws (`cost.serving_power`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.clock import idle_w
from windtunnel.cost.provenance import weakest
from windtunnel.cost.serving_power import PowerCoefficients, Use, limit_w, power_coefficients, watts
from windtunnel.graph import Kind
from windtunnel.program.segment import COMPUTE
from windtunnel.serving.iteration import sparse_weights
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.iteration.iteration_model import IterationModel
from windtunnel.serving.iteration.linear_layers import Layers
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
"""Fields of `kernels.TOTAL` that are read."""


@dataclass(frozen=True, slots=True)
class WorkTable:
    """What one device does in an iteration by its computed tokens, attention left out. Arrays (G,)."""

    tokens: Floats
    kernel_s: Floats
    """In kernels over weights and activations."""
    matrix_s: Floats
    """What the products would take at the peak of their format."""
    hbm_bytes: Floats
    row_matrix_s: float
    """What one row of logits would take at peak."""

    def at(self, tokens: float) -> tuple[float, float, float]:
        """Kernel seconds, matrix seconds at peak and bytes, interpolated."""
        columns = (self.kernel_s, self.matrix_s, self.hbm_bytes)
        seconds, matrix, moved = (float(np.interp(tokens, self.tokens, x)) for x in columns)
        return seconds, matrix, moved


def work_table(
    model: ModelSpec, cluster: ClusterSpec, shape: Shape, iteration: IterationModel, expert_skew: float = 0.85
) -> WorkTable:
    """The table of one lane, at the knots of its iteration model.

    A pipeline of pp stages is pp lanes of the loop, whose iterations fill the stages in turn: a device computes its
    stage for each of them, which is as much as all stages for one.
    """
    knots = iteration.linear.tokens
    layers = Layers(model, cluster, shape, iteration.coefficients, expert_skew)
    kinds = model.layer_kinds()
    seconds, moved, matrix = (np.zeros(len(knots)) for _ in range(3))
    n = knots.astype(np.float64)
    device = cluster.device
    segments = layers.segments(knots)
    for j, (kind, operators) in enumerate(layers.local.items()):
        depth = float(sum(k == kind for k in kinds))
        for i, segment in enumerate(segments[j * len(knots) : (j + 1) * len(knots)]):
            own = [x for x in segment.launches if x.stream == COMPUTE]
            seconds[i] += depth * sum(x.alone_s for x in own)
            moved[i] += depth * sum(x.hbm_bytes for x in own)
        for op in operators:
            if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
                grouped = op.kind == Kind.GROUPED_GEMM
                fmt = shape.expert if grouped else shape.linear
                compute = fmt.compute if grouped or op.number_class == "linear" else "bf16"
                rows = op.m * n / shape.dp / (op.groups if grouped else 1.0)
                flop = depth * 2.0 * op.m * n / shape.dp * op.n * op.k
                matrix += sparse_weights.share(shape, model, op, rows) * flop / device.peak(compute)
    head = sparse_weights.head_weights(model, shape)
    seconds += iteration.linear.head_s
    moved += shape.ends.bytes_per_weight * head
    row = 2.0 * head / shape.dp / device.peak(shape.ends.compute)
    return WorkTable(n, seconds, matrix, moved, row)


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
        return Use((seconds + prompt) / t, read / t, min(matrix / t, 1.0), rate)


def phases(totals: Any, iteration: IterationModel, *, mixed: bool = True) -> tuple[Phase, Phase]:
    """Prompt iterations and decode steps of all instances, from sums of the loop.

    The loop keeps seconds in all; they are split as the mean iterations of both kinds would take them.

    Args:
        totals: records `kernels.TOTAL`, shape (N,).
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
    """Of the time."""
    energy_j: float | None
    energy_per_output_token_j: float | None
    energy_per_million_tokens_kwh: float | None
    """Per million tokens put out."""
    cost_per_million_output_tokens: float | None
    """In the currency of the device's price, None without one."""
    interval: dict[str, Any] | None
    """Of `mean_w_per_device`, given the run's times: level, low, high, basis, grade."""
    energy_interval: dict[str, Any] | None
    """Of `energy_per_output_token_j`, whose times are predicted too."""
    grades: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def power(
    model: ModelSpec,
    cluster: ClusterSpec,
    shape: Shape,
    iteration: IterationModel,
    totals: Any,
    duration_s: float,
    *,
    output_tokens: float | None = None,
    mixed: bool = True,
    expert_skew: float = 0.85,
    clock: Callable[[float], float] | None = None,
    coefficients: PowerCoefficients | None = None,
    work: WorkTable | None = None,
    time_grade: str = "analytic",
) -> PowerReport:
    """What a run drew and cost.

    Args:
        model: what is served.
        cluster: where.
        shape: of each instance.
        iteration: the closed form that the loop ran on.
        totals: records `kernels.TOTAL`, one a lane (an instance, or one of the pp lanes of a pipeline).
        duration_s: from the first arrival to the last answer.
        output_tokens: put out; absent: those of decode steps.
        mixed: whether decode steps run in iterations that hold prompts.
        expert_skew: as in the scenario.
        clock: of iterations by their tokens under a cap (`serving.capped`); absent: no cap slows them.
        coefficients: instead of the device's.
        work: the instance's table, where it is known.
        time_grade: how firmly the run's times stand.
    """
    device = cluster.device
    c = coefficients or power_coefficients(device)
    work = work or work_table(model, cluster, shape, iteration, expert_skew)
    lanes, ranks = int(np.size(totals["busy_s"])), shape.ranks
    devices = lanes * ranks
    prompt, decode = phases(totals, iteration, mixed=mixed)
    whole = max(duration_s * lanes, prompt.iterations * prompt.seconds + decode.iterations * decode.seconds)
    drawn: list[float | None] = []
    joules = 0.0
    shares = []
    for x in (prompt, decode):
        busy = x.iterations * x.seconds
        at = clock(x.tokens) if clock else 1.0
        w = watts(device, c, x.use(work, iteration, device), cluster.power_cap_w, at) if busy else None
        drawn.append(w)
        shares.append(busy / whole if whole else 0.0)
        joules += (w or 0.0) * busy * ranks
    rest = idle_w(device)
    idle_s = max(whole * (1.0 - sum(shares)), 0.0)
    joules += rest * idle_s * ranks
    mean = joules / (whole * ranks) if whole else rest
    tokens = output_tokens if output_tokens is not None else float(np.sum(totals["decode_tokens"]))
    each = joules / tokens if tokens else None
    limit = limit_w(device, cluster.power_cap_w)
    priced = cluster.price_per_device_hour is not None
    price = cluster.price_per_device_hour if priced else device.price_per_hour
    money = price * devices * duration_s / 3600.0 / tokens * 1e6 if price is not None and tokens else None
    off = math.exp(_Z * c.energy_spread)
    grade = weakest([time_grade, c.grade if device.tdp_w else "assumed"])
    grades = {
        "mean_w_per_device": grade,
        "energy_j": grade,
        "energy_per_output_token_j": grade,
        "cost_per_million_output_tokens": weakest([time_grade, "measured" if priced else "assumed"]),
    }
    left = max(1.0 - sum(shares), 0.0)
    if not device.tdp_w:
        return PowerReport(
            num_devices=devices,
            limit_w=None,
            mean_w_per_device=None,
            prompt_w=None,
            decode_w=None,
            idle_w=None,
            prompt_share=shares[0],
            decode_share=shares[1],
            idle_share=left,
            energy_j=None,
            energy_per_output_token_j=None,
            energy_per_million_tokens_kwh=None,
            cost_per_million_output_tokens=money,
            interval=None,
            energy_interval=None,
            grades=grades,
        )
    return PowerReport(
        num_devices=devices,
        limit_w=limit,
        mean_w_per_device=mean,
        prompt_w=drawn[0],
        decode_w=drawn[1],
        idle_w=rest,
        prompt_share=shares[0],
        decode_share=shares[1],
        idle_share=left,
        energy_j=joules,
        energy_per_output_token_j=each,
        energy_per_million_tokens_kwh=None if each is None else each * 1e6 / J_PER_KWH,
        cost_per_million_output_tokens=money,
        interval=_interval(mean, rest, limit, c, shares),
        energy_interval=None if each is None else _band(each / off, each * off, c),
        grades=grades,
    )


def _interval(mean: float, idle: float, limit: float, c: PowerCoefficients, shares: list[float]) -> dict[str, Any]:
    """80 % band of the mean power: the spread of models left out of the fit, on the share of time under way."""
    spread = math.exp(_Z * c.spread)
    busy = sum(shares)
    active = (mean - (1.0 - busy) * idle) / busy if busy else 0.0
    low, high = ((1.0 - busy) * idle + busy * min(active * x, max(limit, active)) for x in (1.0 / spread, spread))
    return _band(low, high, c)


def _band(low: float, high: float, c: PowerCoefficients) -> dict[str, Any]:
    basis = f"models left out of the fit of {c.level}" if c.level != "default" else "devices without a fit"
    return {"level": _LEVEL, "low": low, "high": high, "basis": basis, "grade": c.grade}
