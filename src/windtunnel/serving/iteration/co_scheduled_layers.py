"""Iterations whose launches run side by side: the layers as techniques see them, and what they save.

A layer's launches, attention among them, are handed to the techniques of a scenario; what comes back is simulated by
the engine (`pricing.streams`) for one layer and for three, so that layers flow into one another, and set against the
same launches in a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.gemm import Products, gemm_time_s
from windtunnel.cost.serving_power import Use, held_clock, power_coefficients
from windtunnel.graph import Kind, Operator
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.pricing.streams import simulate_streams
from windtunnel.program.segment import COMPUTE, Launch, Segment
from windtunnel.serving.iteration import pricing_cache
from windtunnel.serving.iteration.attention import (
    FULL,
    LINEAR,
    WINDOWED,
    AttentionCosts,
    attention_costs,
    composed_costs,
    layer_counts,
)
from windtunnel.serving.iteration.composed_attention import is_latent
from windtunnel.serving.iteration.iteration_model import IterationModel
from windtunnel.serving.iteration.linear_layers import DENSE_LAUNCHES, Layers
from windtunnel.serving.iteration.overlap_savings import Overlap, Point
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.techniques.base import Applied
from windtunnel.techniques.serving import ServingBatch, chained

PLAIN = Coefficients()
"""Tiles and waves of products, the same for all engines (`cost.gemm`)."""
TOKEN_RATIO = 1.6
"""Neighbouring numbers of tokens of the surface; savings are even between them (test: 1 % off on average)."""
MEMORY_SM_SHARE = 0.5
"""Share of SMs whose loads in flight keep device memory busy.

Source: bytes in flight = rate · latency (Little's law): 2.0 TB/s · 0.6 µs = 1.2 MB on A100, of which an SM's streaming
kernels hold 16 to 32 kB, so 35 to 70 of 108 SMs; 3.35 TB/s · 0.6 µs = 2.0 MB of 132 SMs on H100. Prior 0.5, standard
error 0.15. Valid for: GPUs; confidence assumed.
"""
NORM_PASSES = 4.0 / 5.0
"""Passes over memory of a norm that adds the residual in the same kernel (reads both, writes both), over those of the
graph's norm and addition.

Source: vLLM's fused_add_rms_norm; 184 µs measured for 8,192 rows of 8,192 on H100, 0.87 of memory's rate
(github.com/microsoft/tokenweave, artifacts_results, figure 4).
"""
SENT = ("tp", "ep", "cp", "transfer", "storage")
"""Tags of launches that use links, or read from drives."""
BEYOND = "_beyond"
"""Ending of the name of what an element-wise launch takes beyond its bytes."""
DEEP = 3
"""Layers of the longer segment: its time over that of one, by two, is a layer's in the flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Equal layers of one kind. Satisfies `techniques.serving.ServingLayers`."""

    layers: Layers
    kind: str
    count: int
    batch: ServingBatch
    gap_s: float
    """Seconds between two launches of a layer."""
    edits: tuple[Callable[[list[Launch], ServingBatch, View], list[Launch]], ...] = ()
    """Techniques that rewrite a layer's launches."""
    priced: dict[tuple[str, str, float, float], list[Launch]] = field(default_factory=dict)
    """Launches of operators other than attention, by kind, name, tokens and tokens of the whole batch."""

    @property
    def cluster(self) -> ClusterSpec:
        """Devices and links."""
        return self.layers.cluster

    @property
    def tp(self) -> int:
        """Ranks of the tensor axis."""
        return self.layers.shape.tp

    @property
    def ranks(self) -> int:
        """Devices of one pipeline stage."""
        return self.layers.shape.ranks

    @property
    def data_ranks(self) -> int:
        """Ranks of attention data parallelism."""
        return self.layers.shape.dp

    @property
    def hidden_size(self) -> int:
        """Width of the model's hidden states."""
        return self.layers.model.hidden_size

    def in_switch_s(self, size: float) -> float | None:
        """Seconds of an all-reduce of so many bytes that the switch adds up; None where it does not."""
        c, cluster = self.layers.c, self.cluster
        if not NetworkCoefficients.for_cluster(cluster).up.switch_efficiency or self.tp > cluster.scale_up_domain:
            return None
        return c.in_switch_s + size / (c.in_switch_fraction * cluster.scale_up.bytes_per_s)

    @property
    def attention_bytes(self) -> tuple[float, float]:
        """Bytes of one token in one layer on one device: its queries, and its keys and values, in 16 bits."""
        model, shape = self.layers.model, self.layers.shape
        heads = model.num_attention_heads / shape.tp
        if model.is_mla:
            wide = float(model.kv_lora_rank or 0) + model.qk_rope_head_dim
            return 2.0 * heads * wide, 2.0 * wide / shape.tp
        size, cached, projections = model.attention_dims(windowed=False)
        return 2.0 * heads * size, 2.0 * projections * cached / shape.tp * size

    def fastest(self, ways: Sequence[Callable[[int], Segment]]) -> int:
        """Index of the way with the least time a layer, by the engine; the earliest of equals."""
        segments = [way(count) for way in ways for count in (1, DEEP)]
        seconds = simulate_streams(segments, memory_rate(self.layers)).reshape(-1, 2)
        return int(np.argmin(seconds[:, 1] - seconds[:, 0]))

    def launches(self, batch: ServingBatch) -> list[Launch]:
        """Launches of one layer, priced for a batch."""
        out: list[Launch] = []
        for op in self.layers.local[self.kind]:
            if op.kind == Kind.ATTENTION:
                out += self._attention(op, batch)
                continue
            key = self.kind, op.name, batch.tokens, self.batch.tokens
            if key not in self.priced:
                self.priced[key] = self._own(op, batch.tokens)
            out += self.priced[key]
        for edit in self.edits:
            out = edit(out, batch, self)
        return out

    def _own(self, op: Operator, tokens: float) -> list[Launch]:
        device = self.cluster.device
        held = NetworkCoefficients.for_cluster(self.cluster).up.channels / max(device.num_sms, 1)
        power = self.layers.c.roofline_power
        out: list[Launch] = []
        for name, tag, stream, seconds, moved, memory_s in self.layers.launches_of(op, np.array([tokens])):
            s, m = float(seconds[0]), float(memory_s[0])
            if stream != COMPUTE:
                sm = min(held, 1.0)
            elif tag == "gemm":
                compute_s = max(s**power - m**power, 0.0) ** (1.0 / power)
                compute_s *= self._ragged(op, tokens) * self._filled(op, tokens)
                s = (compute_s**power + m**power) ** (1.0 / power) if compute_s > 0.0 else s
                sm = max(compute_s, MEMORY_SM_SHARE * min(m, s)) / s if s > 0.0 else 0.0
            elif tag == "memory_bound":
                out += self._streamed(name, s, float(moved[0]), 1.0 + self.layers.beside(op))
                continue
            else:
                sm = 1.0
            kernels = 1.0 if out else 1.0 + self.layers.beside(op)
            out.append(self._launch(name, tag, stream, s, sm, float(moved[0]), kernels))
        return out

    def _streamed(self, name: str, seconds: float, moved: float, kernels: float) -> list[Launch]:
        """An element-wise kernel by its bytes at the best streaming rate, and what the engine's fit gives it beyond.

        A fit on whole iterations cannot tell element-wise time from products that are slower than assumed, both go with
        the tokens: what no kernel of these bytes takes is nothing that a technique could move, fuse or hide. Without a
        fit all of it is the kernel's.
        """
        c = self.layers.c
        if c.grades.get("memory_fraction") not in ("fitted", "pooled"):
            return [self._launch(name, "memory_bound", COMPUTE, seconds, MEMORY_SM_SHARE, moved, kernels)]
        size = moved * (NORM_PASSES if name.endswith("_norm") else 1.0)
        rate = max(c.weight_bytes_fraction, c.memory_fraction) * self.cluster.device.memory_bytes_per_s
        own = min(seconds, size / rate)
        out = [self._launch(name, "memory_bound", COMPUTE, own, MEMORY_SM_SHARE, size, kernels)]
        if seconds > own:
            out.append(self._launch(f"{name}{BEYOND}", "memory_bound", COMPUTE, seconds - own, 1.0, 0.0, 0.0))
        return out

    def _filled(self, op: Operator, tokens: float) -> float:
        """Rate of a part's grouped products over that of the whole batch's: what smaller groups lose is `_ragged`."""
        if op.kind != Kind.GROUPED_GEMM or tokens >= self.batch.tokens:
            return 1.0
        part, whole = (float(self.layers.fill(op, np.array([n]))[0]) for n in (tokens, self.batch.tokens))
        return part / whole

    def _ragged(self, op: Operator, tokens: float) -> float:
        """What a part's products lose to tiles and waves that they do not fill, over the same of the whole batch."""
        whole = self.batch.tokens
        if tokens >= whole:
            return 1.0
        device, dp = self.cluster.device, self.layers.shape.dp
        groups = max(op.groups, 1.0) if op.kind == Kind.GROUPED_GEMM else 1.0
        rows = np.maximum(np.array([tokens, whole]) * op.m / dp / groups, 1.0)
        zero = np.zeros(2)
        seconds = (
            gemm_time_s(
                device,
                PLAIN,
                Products(
                    m=rows,
                    n=np.full(2, op.n),
                    k=np.full(2, op.k),
                    peak_flop_per_s=np.full(2, device.peak("bf16")),
                    fraction=np.ones(2),
                    operand_bytes=zero,
                    output_bytes=zero,
                    extra_bytes=zero,
                    groups=np.full(2, groups),
                ),
            )
            - PLAIN.gemm_floor_s
        )
        return max(float(seconds[0] / seconds[1]) * whole / tokens, 1.0)

    def _attention(self, op: Operator, batch: ServingBatch) -> list[Launch]:
        """Launch attention: prompts keep all SMs busy; decoding sequences read the cache."""
        c, device = self.layers.c, self.cluster.device
        both = (("prompt_attention", batch.prompt_attention_s), ("decode_attention", batch.decode_attention_s))
        some = [(name, seconds) for name, seconds in both if seconds > 0.0] or [("decode_attention", 0.0)]
        read = c.decode_kv_fraction * device.memory_bytes_per_s
        absorbed = is_latent(self.layers.model)  # products with the latent keep the matrix units busy
        out = []
        for name, seconds in some:
            prompt = name == "prompt_attention"
            sm = 1.0 if prompt or absorbed else MEMORY_SM_SHARE
            moved = 0.0 if prompt else seconds * read
            out.append(self._launch(name, "attention", COMPUTE, seconds, sm, moved, self.layers.beside(op) / len(some)))
        return out

    def _launch(
        self, name: str, tag: str, stream: str, seconds: float, sm: float, moved: float, kernels: float
    ) -> Launch:
        whole = seconds + self.gap_s * kernels
        return Launch(
            name=name,
            tag=tag,
            stream=stream,
            alone_s=whole,
            after=[],
            sm=sm * seconds / max(whole, 1e-300),
            hbm_bytes=moved,
            kernels=kernels,
        )


def with_overlap(
    layers: Layers, iteration: IterationModel, chosen: Sequence[Applied], *, most_tokens: int, cuda_graphs: bool
) -> IterationModel:
    """Add what techniques save to an iteration model; knots are simulated when a run first needs them.

    Args:
        layers: layers of the instance.
        iteration: its iteration model without techniques.
        chosen: techniques of the scenario; those without a part here change nothing.
        most_tokens: most tokens that an iteration may compute.
        cuda_graphs: whether decode iterations run captured graphs.
    """
    parts = [(x.technique.serving, x.knobs) for x in chosen if x.technique.serving]
    if not any(part.acts_on_iterations for part, _ in parts if part):
        return iteration
    key = pricing_cache.surface_key(layers, iteration, chosen, (most_tokens, cuda_graphs))
    if (known := pricing_cache.find_surface(key)) is not None:
        return replace(iteration, overlap=known)
    steps = max(int(np.log(max(most_tokens, 2)) / np.log(TOKEN_RATIO)) + 2, 2)
    marks = [m for part, knobs in parts if part for b in part.breaks(knobs) for m in (b - 1, b) if 0 < m <= most_tokens]
    tokens = np.unique(np.concatenate([np.geomspace(1, most_tokens, steps).astype(np.int64), marks])).astype(float)
    linear_s = np.interp(tokens, iteration.linear.tokens, iteration.linear.seconds)
    with_prompts = [(float(n), 0.2 * s, 0.0) for n, s in zip(tokens, linear_s, strict=True)]
    _, host_s = overlap_savings_s(layers, iteration, chosen, with_prompts, cuda_graphs=cuda_graphs)

    def price(points: list[Point]) -> Floats:
        return overlap_savings_s(layers, iteration, chosen, points, cuda_graphs=cuda_graphs)[0]

    return replace(iteration, overlap=pricing_cache.keep_surface(key, Overlap.of(tokens, linear_s, host_s, price)))


def overlap_savings_s(
    layers: Layers,
    iteration: IterationModel,
    chosen: Sequence[Applied],
    points: Sequence[Point],
    *,
    cuda_graphs: bool,
) -> tuple[Floats, Floats]:
    """Compute what techniques save of whole iterations, and what the host needs more to issue their launches.

    The device waits for the host where launching one by one takes longer than computing; the second result is that
    time beyond what iterations with prompts need without techniques.

    Args:
        layers: layers of the instance.
        iteration: its iteration model without techniques.
        chosen: techniques of the scenario.
        points: P points (tokens, seconds of prompt attention, seconds of decode attention) of whole iterations.
        cuda_graphs: whether decode iterations run captured graphs.

    Returns:
        (P,) seconds saved and (P,) seconds of the host.
    """
    depth = Counter(layers.model.layer_kinds())
    runs = _run_layers(layers, list(depth), chosen, points, cuda_graphs=cuda_graphs)
    stages, out, extra = layers.shape.pp, np.zeros(len(points)), np.zeros(len(points))
    for j, kind in enumerate(depth):
        flow = (runs.woven_s[j, :, 1] - runs.woven_s[j, :, 0]) / (DEEP - 1)
        fill = runs.woven_s[j, :, 0] - flow
        flow = flow + _slower_s(layers, runs.row_work[j], runs.woven_work[j], runs.row_s[j], flow)
        out += depth[kind] * (runs.row_s[j] - flow) - min(stages, depth[kind]) * fill
        more = runs.woven_kernels[j] / runs.row_kernels[j] - 1.0
        extra += more * iteration.prefill_floor_s * depth[kind] / sum(depth.values())
    return out, extra


@dataclass(frozen=True, slots=True, kw_only=True)
class _LayerRuns:
    """Layers of K kinds at P points: their launches in a row, and woven as the techniques run them."""

    row_s: Floats
    """(K, P) seconds of one layer in a row."""
    row_kernels: Floats
    """(K, P) kernels of one layer in a row."""
    row_work: Floats
    """(K, P, 5) of `_work`."""
    woven_s: Floats
    """(K, P, 2) seconds of one woven layer, and of `DEEP`."""
    woven_kernels: Floats
    """(K, P) kernels of one woven layer."""
    woven_work: Floats
    """(K, P, 4) of `_kernels`."""


def _run_layers(
    layers: Layers, kinds: Sequence[str], chosen: Sequence[Applied], points: Sequence[Point], *, cuda_graphs: bool
) -> _LayerRuns:
    gap_s, share = _gap_s(layers, cuda_graphs), _attention_shares(layers)
    edits = tuple(_edit(x) for x in chosen if x.technique.serving and x.technique.serving.launches)
    weaves = [x for x in chosen if x.technique.serving and x.technique.serving.layers]
    woven: list[Segment] = []
    priced: dict[tuple[str, str, float, float], list[Launch]] = {}
    shape = len(kinds), len(points)
    row_s, row_kernels = np.zeros(shape), np.zeros(shape)
    row_work, woven_work = np.zeros((*shape, 5)), np.zeros((*shape, 4))
    for j, kind in enumerate(kinds):
        for i, (n, prompt_s, decode_s) in enumerate(points):
            batch = ServingBatch(n, prompt_s * share[kind], decode_s * share[kind])
            view = View(layers=layers, kind=kind, count=1, batch=batch, gap_s=gap_s, priced=priced)
            row = view.launches(batch)
            row_s[j, i], row_kernels[j, i] = sum(x.alone_s for x in row), sum(x.kernels for x in row)
            woven += [_woven(replace(view, count=count, edits=edits), weaves) for count in (1, DEEP)]
            row_work[j, i], woven_work[j, i] = _work(view, row), _kernels(woven[-2].launches)
    return _LayerRuns(
        row_s=row_s,
        row_kernels=row_kernels,
        row_work=row_work,
        woven_s=simulate_streams(woven, memory_rate(layers)).reshape(*shape, 2),
        woven_kernels=np.array([sum(x.kernels for x in s.launches) for s in woven]).reshape(*shape, 2)[:, :, 0],
        woven_work=woven_work,
    )


def _work(view: View, row: Sequence[Launch]) -> tuple[float, float, float, float, float]:
    """Return what a layer's products would take at peak, and `_kernels` of its launches."""
    layers, c = view.layers, view.layers.c
    peak_s = view.batch.prompt_attention_s * c.prefill_attention_fraction
    for op in layers.local[view.kind]:
        if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
            number = layers.shape.format_of(op).compute
            flop = 2.0 * op.m * view.batch.tokens / layers.shape.dp * op.n * op.k
            peak_s += flop / layers.device.peak(number)
    return peak_s, *_kernels(row)


def _kernels(launches: Sequence[Launch]) -> tuple[float, float, float, float]:
    """Sum launches on this device: seconds of products, of all kernels but decode attention, of that; bytes."""
    own = [x for x in launches if x.tag not in SENT and (x.sm > 0.0 or x.hbm_bytes > 0.0)]
    read_s = sum(x.alone_s for x in own if x.name == "decode_attention")
    matrix_s = sum(x.alone_s for x in own if x.tag == "gemm" or x.name == "prompt_attention")
    return matrix_s, sum(x.alone_s for x in own) - read_s, read_s, sum(x.hbm_bytes for x in own)


def _slower_s(layers: Layers, rows: Floats, woven: Floats, row_s: Floats, flow_s: Floats) -> Floats:
    """(P,) seconds that a layer's products take longer where they fill more of the time: the board holds its power.

    Rates of the engine are those of launches in a row, whose pauses leave power to spare; a technique that fills them
    runs at the clock of its own draw, where watts of the generation were measured. Under a cap the rates are those of
    the capped clock already.
    """
    cluster, out = layers.cluster, np.zeros(len(row_s))
    if not cluster.device.tdp_w or cluster.power_cap_w is not None or cluster.clock_share is not None:
        return out
    shares = power_coefficients(cluster.device)
    if shares.grade != "fitted":
        return out

    def clock(peak: float, work: Floats, seconds: float) -> float:
        _, kernel, read, moved = work / max(seconds, 1e-12)
        use = Use(min(kernel, 1.0), min(read, 1.0), min(peak / max(seconds, 1e-12), 1.0), moved)
        return held_clock(cluster.device, shares, use)

    for i, (row, own) in enumerate(zip(rows, woven, strict=True)):
        at = clock(row[0], row[1:], row_s[i]), clock(row[0], own, flow_s[i])
        out[i] = own[0] * max(at[0] / at[1] - 1.0, 0.0)
    return out


def memory_rate(layers: Layers) -> float:
    """Bytes per second of kernels together: no more than the best of them reaches alone."""
    c = layers.c
    best = max(c.weight_bytes_fraction, c.decode_kv_fraction, c.memory_fraction, *c.expert_bytes_fraction.values())
    return min(best, 1.0) * layers.device.memory_bytes_per_s


def _edit(one: Applied) -> Callable[[list[Launch], ServingBatch, View], list[Launch]]:
    part = one.technique.serving
    assert part is not None and part.launches is not None
    rewrite = part.launches
    return lambda launches, batch, view: rewrite(launches, batch, view, one.knobs)


def _woven(view: View, weaves: Sequence[Applied]) -> Segment:
    for one in weaves:
        part = one.technique.serving
        made = part.layers(view, one.knobs) if part and part.layers else None
        if made is not None:
            return made
    return _in_a_row(view)


def _in_a_row(view: View) -> Segment:
    out, last = Segment(view.kind, "F", []), list[int]()
    for _ in range(view.count):
        last = chained(out, view.launches(view.batch), last)
    return out


def _gap_s(layers: Layers, cuda_graphs: bool) -> float:
    """Seconds between two launches, such that those of a layer add up to what `iteration_model` counts."""
    return (layers.c.layer_s + (0.0 if cuda_graphs else layers.c.launch_layer_s)) / DENSE_LAUNCHES


def _attention_shares(layers: Layers) -> dict[str, float]:
    """Kind → share of the instance's attention seconds that one layer of it has, at equal reach.

    Layers with a window or a state share the seconds of all attention by what they cost next to full ones, at as many
    tokens as the window holds.
    """
    model = layers.model
    own = {kind: _attention_at_reach(layers, kind) for kind in layers.local}
    depth = Counter(model.layer_kinds())
    whole = sum(own[kind] * depth[kind] for kind in own)
    return {kind: (seconds / whole if whole > 0.0 else 0.0) for kind, seconds in own.items()}


def _attention_at_reach(layers: Layers, kind: str) -> float:
    """Seconds of decode attention and states of one layer, at as many tokens as the widest window holds."""
    model = layers.model
    reach = float(model.attended_window if model.layers else model.sliding_window or 1) or 1.0
    if model.layers:
        if kind not in model.layer_kinds():
            return 0.0
        one = composed_costs(model, layers.device, layers.shape, layers.c, kind)
        return (one.decode_kv_s + one.decode_window_s) * reach + one.decode_state_s
    costs: AttentionCosts = attention_costs(model, layers.device, layers.shape, layers.c)
    full, windowed, recurrent = layer_counts(model)
    if kind in FULL:
        return costs.decode_kv_s * reach / max(full, 1)
    if kind in WINDOWED:
        return costs.decode_window_s * reach / max(windowed, 1)
    return costs.decode_state_s / max(recurrent, 1) if kind in LINEAR else 0.0
