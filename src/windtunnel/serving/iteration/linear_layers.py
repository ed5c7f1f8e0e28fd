"""Everything of an iteration but attention: one segment of launches for each block kind and number of tokens."""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel import graph
from windtunnel.arrays import Floats, Ints
from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.expert_load import crowded, slowest
from windtunnel.cost.expert_placement import Stay, stay
from windtunnel.cost.serving import ServingCoefficients
from windtunnel.cost.streamed import both_roofs_s, distinct_experts, filled
from windtunnel.graph import Batch, Kind, Operator
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.network.nccl import THROUGH_HOST
from windtunnel.pricing.segments import simulate_segments
from windtunnel.program.segment import COMM, COMPUTE, Launch, Segment
from windtunnel.serving.iteration import sparse_weights
from windtunnel.serving.iteration.attention import cached_bytes
from windtunnel.serving.iteration.composed_attention import is_latent
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.iteration.weight_bytes import layers_of_stages, local_blocks, stage_bytes
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec

_ROW_ENDS = ("proj", "cross_proj", "fc2", "out_proj")
Row = tuple[str, str, str, Floats, Floats, Floats]
"""A launch at each number of tokens: name, tag, stream, seconds, bytes moved, and seconds that memory alone takes."""
LOAD = "load_"
"""Beginning of the name of what reads the weights of a grouped product from drives."""
PARTS = {
    "storage": "reads of experts",
    "memory_bound": "element-wise",
    "scan": "scan",
    "tp": "all-reduce",
    "ep": "expert exchange",
}
"""Classes of time by tag."""
_LINEAR, _EXPERTS = ("weights", "matrix products"), ("expert weights", "expert products")
"""What products are split into."""
DENSE_LAUNCHES = 11
"""Kernels and collectives of a dense layer cut by tp: two norms, four products, activation, attention and its rotary
part, two reductions."""
EAGER = {"latent_norm_rope": 5, "routing": 3, "scan": 8}
"""Kernels more than one that an operator of the graph is where nothing is captured: two norms, rotation, copies and the
cache's write of a latent; scores, choice, sort and counts of a router; norms, gates, decays, triangular inverses,
states and outputs of a chunked delta rule (SGLang models/deepseek_v2.py, layers/moe/topk.py, layers/attention/fla)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """Seconds of one instance's layers apart from attention, by computed tokens."""

    tokens: Ints
    seconds: Floats
    """(G,): all layers of the instance, one after the other, and the hops between its stages."""
    weight_bytes: float
    """Bytes of weights on one device of the fullest stage."""
    head_s: float
    """Seconds of reading the head's weights, once an iteration."""
    head_row_s: float
    """Seconds per row of logits."""
    flop_per_token: float
    """FLOPs of linear layers, over all devices."""
    parts: dict[str, Floats] = field(default_factory=dict)
    """Class → (G,) seconds; they sum to `seconds`. A product near the corner of its roofline belongs to reading weights
    by as much as its time would change with memory bandwidth."""
    shared: Floats = field(default_factory=lambda: np.zeros(0))
    """(G,): the part of `seconds` that all ranks of attention data parallelism work on together: routed experts and
    what brings their results home. The rest is each rank's own."""
    stage_shares: Floats = field(default_factory=lambda: np.ones(1))
    """(S,) of the layers' seconds, by pipeline stage."""
    hop_s: float = 0.0
    """Seconds of one hop between stages, whatever is sent; `seconds` holds all hops."""
    hop_token_s: float = 0.0
    """Seconds by which a hop is longer for each token."""


class Layers:
    """Prices the blocks of one instance.

    Args:
        model: what is served.
        cluster: where it runs.
        shape: axes and formats of the instance.
        c: coefficients of the engine on the device.
        expert_skew: experts that routing treats equally, as a share of all.
        kinds: how often each kind of block is run; absent: as often as the model has it.
    """

    def __init__(
        self,
        model: ModelSpec,
        cluster: ClusterSpec,
        shape: Shape,
        c: ServingCoefficients,
        expert_skew: float = 0.85,
        *,
        kinds: Counter[str] | None = None,
    ) -> None:
        self.kinds = kinds or Counter(model.layer_kinds())
        self.model, self.cluster, self.shape, self.c, self.skew = model, cluster, shape, c, expert_skew
        self.graph = graph.build(
            model,
            Batch(tokens=1.0, sequences=1.0, seq_len=1.0, pairs=0.0, full_pairs=0.0, logits_rows=1.0, training=False),
        )
        self.network = NetworkModel(cluster)
        self.device = cluster.device
        self.local = local_blocks(model, shape, written_out=c.written_out >= 0.5)
        self.loads: dict[bytes, tuple[Floats, Floats]] = {}
        self.counts: dict[tuple[str, int], int] = {}

    def under(self, c: ServingCoefficients) -> Layers:
        """Return the layers of the same instance under other coefficients."""
        out = copy(self)
        out.c = c
        return out

    def segments(self, tokens: Ints) -> list[Segment]:
        """Return (kinds · G) segments, kind by kind."""
        n = tokens.astype(np.float64)
        out = []
        for kind, operators in self.local.items():
            rows = [row for op in operators for row in self.launches_of(op, n)]
            for i in range(len(n)):
                segment = Segment(kind, "F", [])
                last = -1
                for name, tag, stream, seconds, moved, _ in rows:
                    launch = Launch(
                        name=name,
                        tag=tag,
                        stream=stream,
                        alone_s=float(seconds[i]),
                        after=[last] if last >= 0 else [],
                        sm=1.0 if stream == COMPUTE else 0.0,
                        hbm_bytes=float(moved[i]),
                    )
                    last = segment.append(launch)
                out.append(segment)
        return out

    def price(self, tokens: Ints) -> Linear:
        """Price the layers at each number of tokens, in one engine call."""
        segments = self.segments(tokens)
        idle = [0.0] * len(segments)
        times = simulate_segments(segments, self.cluster, Coefficients(), idle, idle)
        depth = self.kinds
        total = np.zeros(len(tokens))
        for j, kind in enumerate(self.local):
            total += depth[kind] * np.array([t.total_s for t in times[j * len(tokens) : (j + 1) * len(tokens)]])
        parts = self._parts(tokens.astype(np.float64), depth, total)
        if self.shape.pp > 1:
            hops = (self.shape.pp - 1) * self._hop(tokens.astype(np.float64))
            total += hops
            parts["pipeline hops"] = hops
        shared = self._shared(tokens.astype(np.float64))
        head_s, head_row_s = self._head()
        return Linear(
            tokens=tokens,
            seconds=total,
            weight_bytes=self.weight_bytes(),
            head_s=head_s,
            head_row_s=head_row_s,
            flop_per_token=self._flop(),
            parts=parts,
            shared=shared,
            **self._stages(tokens.astype(np.float64)),
        )

    def _shared(self, n: Floats) -> Floats:
        """Seconds of routed experts and of what follows them."""
        depth = self.kinds
        out = np.zeros(len(n))
        for kind, operators in self.local.items():
            for op in operators:
                if op.kind == Kind.GROUPED_GEMM or op.name == "unpermute":
                    out += depth[kind] * sum(row[3] for row in self.launches_of(op, n) if row[1] in ("gemm", "ep"))
        return out

    def _parts(self, n: Floats, depth: Counter[str], total: Floats) -> dict[str, Floats]:
        """Seconds by class: launches follow one another, so that their times sum to the engine's."""
        out: dict[str, Floats] = {}
        for kind, operators in self.local.items():
            for op in operators:
                for _, tag, _, seconds, _, memory_s in self.launches_of(op, n):
                    own = {PARTS.get(tag, tag): seconds}
                    if tag == "gemm":
                        share = np.minimum((memory_s / np.maximum(seconds, 1e-300)) ** self.c.roofline_power, 1.0)
                        words = _EXPERTS if op.kind == Kind.GROUPED_GEMM else _LINEAR
                        own = dict(zip(words, (share * seconds, (1.0 - share) * seconds), strict=True))
                    for name, value in own.items():
                        out[name] = out.get(name, 0.0) + depth[kind] * value
        whole = np.maximum(sum(out.values(), np.zeros_like(n)), 1e-300)
        return {name: np.asarray(value / whole * total) for name, value in out.items()}

    def alone(self, tokens: Ints) -> Linear:
        """Price the layers without the engine: launches of a layer follow one another, so their times add up.

        Fits call it many times; a test holds it equal to `price`.
        """
        n = tokens.astype(np.float64)
        depth, total = self.kinds, np.zeros(len(tokens))
        for kind, operators in self.local.items():
            for op in operators:
                for row in self.launches_of(op, n):
                    total += depth[kind] * row[3]
        if self.shape.pp > 1:
            total += (self.shape.pp - 1) * self._hop(n)
        head_s, head_row_s = self._head()
        return Linear(
            tokens=tokens,
            seconds=total,
            weight_bytes=self.weight_bytes(),
            head_s=head_s,
            head_row_s=head_row_s,
            flop_per_token=self._flop(),
            shared=self._shared(n),
            **self._stages(n),
        )

    def _stages(self, n: Floats) -> dict[str, Any]:
        """How layers fall on pipeline stages, and what a hop between two of them takes: fields of `Linear`.

        Stages hold whole layers; where kinds of layers differ, a stage's share is its mean over numbers of tokens.
        """
        if self.shape.pp == 1:
            return {}
        each = {
            kind: sum((row[3] for op in operators for row in self.launches_of(op, n)), np.zeros_like(n))
            for kind, operators in self.local.items()
        }
        of_stage = np.array(
            [
                sum((each[kind] for kind in kinds), np.zeros_like(n))
                for kinds in layers_of_stages(self.model, self.shape.pp)
            ]
        )
        none, one = self._hop(np.array([0.0, 1.0])).tolist()
        shares = (of_stage / of_stage.sum(axis=0)).mean(axis=1)
        return {"stage_shares": shares, "hop_s": none, "hop_token_s": one - none}

    def depth(self) -> float:
        """Layers, each counted by its kernels and collectives over those of a dense one: what gaps come between."""
        total = 0.0
        for kind, count in self.kinds.items():
            launches = sum(self._kernels(kind, i) + self.beside(op) for i, op in enumerate(self.local[kind]))
            total += count * launches / DENSE_LAUNCHES
        return total

    def _kernels(self, kind: str, i: int) -> int:
        """Kernels and collectives of one operator of a block."""
        if (kind, i) not in self.counts:
            rows = self.launches_of(self.local[kind][i], np.ones(1))
            self.counts[kind, i] = sum(row[1] != "storage" for row in rows)
        return self.counts[kind, i]

    def beside(self, op: Operator) -> int:
        """Kernels that come with an operator: the rotary part of attention, casts of activations.

        Latent attention multiplies queries and outputs with absorbed projections and joins their rotary parts.
        """
        if op.kind == Kind.ATTENTION:
            return 4 if is_latent(self.model) else 1
        if op.kind == Kind.GROUPED_GEMM:
            return int(self.shape.expert.casts)
        casts = self.shape.format_of(op).casts and not self.shape.fused_casts
        return int(op.kind == Kind.GEMM and op.number_class == "linear" and casts)

    def eager_depth(self) -> float:
        """Layers, each counted by its launches without captured graphs, where parts of composite operators count."""
        total = 0.0
        for kind, count in self.kinds.items():
            for i, op in enumerate(self.local[kind]):
                total += count * (self._kernels(kind, i) + self.beside(op) + EAGER.get(op.name, 0)) / DENSE_LAUNCHES
        return total

    # -- one operator --------------------------------------------------------------------------------------------------
    def launches_of(self, op: Operator, n: Floats) -> list[Row]:
        """Launches of one operator at each number of tokens: itself, and the collective after it."""
        rows, none = n / self.shape.dp, np.zeros_like(n)
        out: list[Row] = []
        c, device = self.c, self.device
        if op.kind == Kind.GEMM:
            fmt = self.shape.format_of(op)
            m = op.m * rows
            part = sparse_weights.share(self.shape, self.model, op, rows)
            moved = part * (op.n * op.k * fmt.bytes_per_weight) + 2.0 * m * (op.k + op.n)
            cast = 3.0 * m * op.k if fmt.casts else none
            rate = device.peak(fmt.compute) * self._fraction(c.matrix_fraction, fmt.rate)
            memory_s = moved / (c.weight_bytes_fraction * device.memory_bytes_per_s)
            seconds = both_roofs_s(part * (2.0 * m * op.n * op.k) / rate, memory_s, c.roofline_power)
            seconds = seconds + cast / (c.memory_fraction * device.memory_bytes_per_s)
            out.append((op.name, "gemm", COMPUTE, seconds, moved + cast, memory_s))
        elif op.kind == Kind.GROUPED_GEMM:
            if self.shape.storage is not None:
                out.append((f"{LOAD}{op.name}", "storage", COMM, self._read(op, n), none, none))
            out.append(self._experts(op, n))
        elif op.kind == Kind.SCAN:
            out.append((op.name, "scan", COMPUTE, self._scan_s(op, rows), op.forward_bytes * rows, none))
        elif op.kind == Kind.POINTWISE:
            moved = op.forward_bytes * rows
            memory_s = moved / (c.memory_fraction * device.memory_bytes_per_s)
            out.append((op.name, "memory_bound", COMPUTE, memory_s, moved, memory_s))
        joined = self.model.parallel_block and op.name == "proj"  # attention and MLP are summed before one reduction
        if op.name in _ROW_ENDS and self.shape.tp > 1 and not joined:
            out.append((f"tp_reduce_{op.name}", "tp", COMM, self._all_reduce(rows), none, none))
        if op.name == "unpermute" and self.shape.tp * self.shape.dp > 1:
            out.append(("combine", "ep", COMM, self._exchange(n), none, none))
        return out

    def _scan_s(self, op: Operator, rows: Floats) -> Floats:
        """Seconds of a scan: its chunk products, or the bytes of one that runs channel by channel."""
        if op.elementwise:
            moved = op.forward_bytes * rows
            return np.asarray(moved / (self.c.memory_fraction * self.device.memory_bytes_per_s))
        return np.asarray(op.forward_flop * rows / (self.device.peak("bf16") * self.c.scan_fraction))

    def _fraction(self, table: dict[str, float], name: str) -> float:
        key = "bf16" if name in ("fp16", "fp32", "tf32") else name
        key = "fp8" if key == "fp8_block" and key not in table else key
        return table.get(key, table.get("bf16", 0.6))

    def _experts(self, op: Operator, n: Floats) -> Row:
        """Grouped products of the experts of one rank: weights of those that some token needs, all tokens' rows."""
        shape, c, device = self.shape, self.c, self.device
        fmt = shape.expert
        over, touched = self._load(n)
        rows = op.m * n / shape.dp * over
        part = sparse_weights.share(shape, self.model, op, rows / np.maximum(touched, 1e-300))
        moved = part * (touched * op.n * op.k * fmt.bytes_per_weight) + 2.0 * rows * (op.k + op.n)
        dense = device.peak(fmt.compute) * self._fraction(c.matrix_fraction, fmt.rate)
        rate = dense * self.fill(op, n)
        read = c.expert_bytes_fraction.get(fmt.stored, 0.6) * device.memory_bytes_per_s
        seconds = both_roofs_s(part * (2.0 * rows * op.n * op.k) / rate, moved / read, c.roofline_power)
        return op.name, "gemm", COMPUTE, seconds, moved, moved / read

    def _read(self, op: Operator, n: Floats) -> Floats:
        """Seconds in which drives read the experts that tokens need and memory has not."""
        at, fmt = self.shape.storage, self.shape.expert
        assert at is not None
        missing = 1.0 - (at.cached if at.hits is None else at.hits)
        return np.asarray(self._load(n)[1] * op.n * op.k * fmt.bytes_per_weight * missing / at.bytes_per_s)

    def fill(self, op: Operator, n: Floats) -> Floats:
        """Rate of an operator's grouped products over that of one large product, at each number of tokens."""
        over, touched = self._load(n)
        fitted = self._fraction(self.c.expert_matrix_fraction, self.shape.expert.rate)
        return filled(fitted, op.m * n / self.shape.dp * over / np.maximum(touched, 1e-300))

    def _load(self, n: Floats) -> tuple[Floats, Floats]:
        """Return the slowest rank's rows over the mean, and the experts whose weights it reads."""
        model, shape, topk = self.model, self.shape, float(self.model.num_experts_per_tok)
        if shape.experts is None:
            return np.ones_like(n), distinct_experts(float(model.num_experts), topk, n, self.skew) / shape.ep
        key = n.tobytes()
        if key not in self.loads:
            over, touched = slowest(model.num_experts, topk, shape.ep, shape.experts, n)
            if shape.experts.affinity:
                over = over * self._stay().uneven
            self.loads[key] = over, touched
        return self.loads[key]

    # -- communication -------------------------------------------------------------------------------------------------
    def _all_reduce(self, rows: Floats) -> Floats:
        """One all-reduce over the tensor axis.

        Inside a domain the engine's own kernel or the library's, whichever is sooner, or the one that is asked for;
        the library's across, and over PCIe but between two peers (vLLM `custom_all_reduce.py`: more than two devices
        without NVLink have none).
        """
        t, c = self.shape.tp, self.c
        size = rows * self.model.hidden_size * 2.0
        if self.shape.in_switch:
            return c.in_switch_s + size / (c.in_switch_fraction * self.cluster.scale_up.bytes_per_s)
        where = placement(t, 1, self.cluster.scale_up_domain)
        library = np.asarray(self.network.collective("all_reduce", size, where, software=self.shape.library).alone_s)
        if t > self.cluster.scale_up_domain or not self._own_kernel(t):
            return library
        rate = c.all_reduce_fraction * self.cluster.scale_up.bytes_per_s
        return np.minimum(library, c.all_reduce_s + 2.0 * (t - 1) / t * size / rate)

    def _own_kernel(self, ranks: int) -> bool:
        """Whether the engine's own all-reduce works between so many devices of a domain."""
        family = self.cluster.scale_up.family
        return not family.startswith("pcie") or (ranks == 2 and family not in THROUGH_HOST)

    def _exchange(self, n: Floats) -> Floats:
        """What brings expert results home: an all-reduce where every rank has all tokens, else two exchanges.

        All-to-alls send each token once to every other rank that has one of its experts, in the format that experts
        multiply, and sums back in 16 bits (DeepSeek-V3, arXiv 2412.19437, section 3.2; DeepEP's normal kernels;
        TensorRT-LLM casts to fp4 before it sends, `use_postquant_alltoall`); gathered, every rank gets all tokens in
        the experts' format, and sums are scattered in 16 bits.
        """
        shape, model, c = self.shape, self.model, self.c
        if shape.dp == 1:
            return self._all_reduce(n)
        if shape.experts is not None and shape.experts.coherent:
            return self._moved_on(n)
        ranks = shape.ranks
        sent = n / ranks * self._other_ranks() * (shape.expert.bytes_dispatched + 2.0) * model.hidden_size
        if shape.gathered:
            sent = n * (1.0 - 1.0 / ranks) * (shape.expert.bytes_sent + 2.0) * model.hidden_size
        elif shape.experts is not None:
            sent = sent * self._load(n)[0]
        inside = min(self.cluster.scale_up_domain, ranks)
        up = c.all_to_all_fraction * self.cluster.scale_up.bytes_per_s
        seconds = 2.0 * c.all_to_all_s + sent / up
        if self.cluster.scale_up.family.startswith("pcie"):
            seconds = np.maximum(seconds, self._library_exchange(sent, inside))
        if ranks > inside:
            nic = c.all_to_all_fraction * self.cluster.nic_bytes_per_s_per_device
            across = sent * (ranks - inside) / (ranks - 1.0) / nic
            if not shape.gathered:
                across = np.minimum(across, 2.0 * c.all_to_all_s + sent * self._once_a_node(ranks / inside) / nic)
            seconds = seconds + across * self._crowded(n)
        if shape.tp > 1:
            seconds = seconds + 0.5 * self._all_reduce(n / shape.dp)
        return np.asarray(seconds)

    def _library_exchange(self, sent: Floats, ranks: int) -> Floats:
        """Two all-to-alls of the library, there and back, which move so many bytes of each rank."""
        whole = sent / 2.0 * ranks / max(ranks - 1.0, 1.0)
        where = placement(ranks, 1, self.cluster.scale_up_domain)
        return 2.0 * np.asarray(self.network.collective("all_to_all", whole, where).alone_s)

    def _other_ranks(self) -> float:
        """Ranks next to its own that have an expert of a token, on average, experts drawn alike."""
        ranks = float(self.shape.ranks)
        return float((ranks - 1.0) * (1.0 - (1.0 - 1.0 / ranks) ** float(self.model.num_experts_per_tok)))

    def _crowded(self, n: Floats) -> Floats:
        """Full links of a mesh or torus: their time over that of the ports of the rank with most rows, 1 or more."""
        load, model, shape = self.shape.experts, self.model, self.shape
        if load is None or load.mesh is None or shape.gathered:
            return np.ones_like(n)
        links, leaves = crowded(model.num_experts, float(model.num_experts_per_tok), shape.ep, load)
        uniform = 1.0 - 1.0 / load.mesh.graph.num_devices
        return np.asarray(np.maximum(links / self._load(n)[0], 1.0) * leaves / uniform)

    def _stay(self) -> Stay:
        """Tokens that find their next expert where they are."""
        shape, load = self.shape, self.shape.experts
        assert load is not None
        per_node = max(min(self.cluster.scale_up_domain, shape.ranks) * shape.ep // shape.ranks, 1)
        return stay(self.model.num_experts, shape.ep, per_node, load.affinity, load.by_affinity)

    def _moved_on(self, n: Floats) -> Floats:
        """One exchange a layer: tokens go on to their next expert, in 16 bits, and their new keys and values to all.

        Source: Yao et al. 2024 (arXiv 2401.08383), context-coherent expert parallelism.
        """
        shape, model, c = self.shape, self.model, self.c
        here, ranks = self._stay(), shape.ranks
        inside = min(self.cluster.scale_up_domain, ranks)
        up = c.all_to_all_fraction * self.cluster.scale_up.bytes_per_s
        nic = c.all_to_all_fraction * self.cluster.nic_bytes_per_s_per_device
        each = n / ranks * min(float(model.num_experts_per_tok), float(ranks)) * 2.0 * model.hidden_size
        layers = sum(self.kinds.values())
        where = placement(ranks, 1, self.cluster.scale_up_domain)
        context = n * layers * cached_bytes(model, shape, windowed=False)
        seconds = self.network.collective("all_gather", context, where, software=shape.library).alone_s / layers
        seconds = seconds + c.all_to_all_s + each * (here.node - here.rank) / up
        return np.asarray(seconds + each * (1.0 - here.node) / (nic if ranks > inside else up))

    def _once_a_node(self, nodes: float) -> float:
        """Copies of a token that leave its node over all that are sent, where a node gets one and hands it on inside.

        Source: DeepEP's normal kernels (github.com/deepseek-ai/DeepEP) forward from network to NVLink; its low-latency
        ones send to each rank, which is sooner for few tokens. Experts are drawn alike; limits on the nodes of a token
        are left out.
        """
        chosen = float(self.model.num_experts_per_tok)
        return float((nodes - 1.0) * (1.0 - (1.0 - 1.0 / nodes) ** chosen) / self._other_ranks())

    def _hop(self, n: Floats) -> Floats:
        """Activations from one stage to the next."""
        size = n / self.shape.dp * self.model.hidden_size * 2.0
        if self.shape.ranks * self.shape.pp <= self.cluster.scale_up_domain:
            link = self.cluster.scale_up
            return np.asarray(link.latency_s + size / link.bytes_per_s)
        return np.asarray(self.cluster.scale_out.latency_s + size / self.cluster.nic_bytes_per_s_per_device)

    def placement_s(self) -> float:
        """What placing experts anew takes an iteration: each rank gets all of its experts over its slowest link."""
        load = self.shape.experts
        if load is None or not load.balanced or self.shape.ep == 1:
            return 0.0
        depth = Counter(self.model.layer_kinds())
        held = sum(
            depth[kind] * op.params * self.shape.expert.bytes_per_weight
            for kind, operators in self.local.items()
            for op in operators
            if op.kind == Kind.GROUPED_GEMM
        )
        held *= 1.0 + load.redundant / self.model.num_experts
        inside = self.shape.ranks <= self.cluster.scale_up_domain
        rate = self.cluster.scale_up.bytes_per_s if inside else self.cluster.nic_bytes_per_s_per_device
        return held / (self.c.all_to_all_fraction * rate) / load.interval

    # -- ends and sums -------------------------------------------------------------------------------------------------
    def _head(self) -> tuple[float, float]:
        model, shape, device, c = self.model, self.shape, self.device, self.c
        fmt, weights = shape.ends, sparse_weights.head_weights(model, shape)
        once = fmt.bytes_per_weight * weights / (c.weight_bytes_fraction * device.memory_bytes_per_s)
        row = 2.0 * weights / (device.peak(fmt.compute) * self._fraction(c.matrix_fraction, fmt.rate))
        if shape.tp > 1:
            logits = 2.0 * model.vocab_size * (shape.tp - 1) / shape.tp
            row += logits / (c.all_reduce_fraction * self.cluster.scale_up.bytes_per_s)
        return once, row / shape.dp

    def weight_bytes(self) -> float:
        """Bytes of weights on one device of the fullest stage."""
        return max(stage_bytes(self.model, self.shape, self.local))

    def _flop(self) -> float:
        depth = self.kinds
        return sum(
            depth[kind] * graph.forward_flop(op)
            for kind, block in self.graph.blocks.items()
            for op in block.operators
            if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM)
        )
