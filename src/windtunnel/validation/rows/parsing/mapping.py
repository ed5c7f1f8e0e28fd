"""Tensor, pipeline and context axis where a row states none: what trains in the memory, at the least estimated time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from windtunnel import catalog
from windtunnel.catalog.parameters import count_parameters
from windtunnel.specs.cluster import ClusterRef, ClusterSpec
from windtunnel.specs.model import ModelSpec

SHARDED = ("fsdp1", "torchtitan", "ddp", "torchtune", "deepspeed", "jax", "pax", "t5x")
"""Software that shards parameters over the data axis, so that models need neither axis."""

_USUAL_RATE = 0.4
"""Share of the peak rate that training sustains; only the ratio to the time of transfers depends on it."""
_TIE = 0.015
"""Relative difference below which two estimates say nothing."""
_FEWEST_TOKENS = 1024
"""Tokens of a sequence that a rank of the context axis keeps at least; below, kernels and messages are too small."""
_SENT_BYTES = 6.0
"""A gradient in four bytes reduced and a weight in two gathered."""
_PASSES = 3.0
"""A forward pass and twice as much work backwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmapped:
    """What a row says about a run whose mapping it does not state."""

    model: ModelSpec
    cluster: ClusterRef
    framework: str
    seq_len: int
    tp: int | None = None
    """Tensor axis where it is stated; likewise the others."""
    pp: int | None = None
    cp: int | None = None
    batch: int | None = None
    """Sequences of a step."""
    micro_batch: int | None = None
    """Sequences of a micro-batch."""
    accumulation: int | None = None
    """Micro-batches of a replica and step."""
    frozen_bytes: float = 0.0
    """Bytes of a weight that is not trained; 0 where all weights are trained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """Axes of one replica."""

    tp: int
    pp: int
    cp: int


def infer_mapping(run: Unmapped) -> Mapping:
    """The mapping of a run that does not state it.

    States (weights, gradients, sharded moments) take half of the memory at most, frozen weights four fifths. Of what
    holds, mappings come first that agree with the stated accumulation and give every replica whole sequences; then the
    least time decides, as the planner would: products, the bubble of the pipeline, transfers of each axis over the link
    that it crosses. Near ties go to the shortest pipeline and the fewest devices a replica.
    """
    cluster = catalog.resolve_cluster(run.cluster)
    if run.framework in SHARDED:
        tp, pp = run.tp or 1, run.pp or 1
        return Mapping(tp=tp, pp=pp, cp=run.cp or _split(run.batch, cluster.num_devices // (tp * pp)))
    found = _candidates(run, cluster)
    holding = [mapping for mapping in found if _holds(run, cluster, mapping)]
    if not holding:
        return max(found, key=lambda m: (m.tp * m.pp, -m.cp), default=Mapping(tp=run.tp or 1, pp=run.pp or 1, cp=1))
    for agrees in (_accumulates, _whole):
        holding = [mapping for mapping in holding if agrees(run, cluster, mapping)] or holding
    seconds = {mapping: _seconds(run, cluster, mapping) for mapping in holding}
    least = min(seconds.values())
    near = [mapping for mapping in holding if seconds[mapping] <= least * (1.0 + _TIE)]
    return min(near, key=lambda m: (m.pp, m.tp * m.cp, m.tp))


def _split(batch: int | None, replicas: int) -> int:
    """Context axis of sharded software: what has fewer sequences than replicas cuts the sequences."""
    return replicas // batch if batch and batch < replicas and replicas % batch == 0 else 1


def _candidates(run: Unmapped, cluster: ClusterSpec) -> list[Mapping]:
    model, devices = run.model, cluster.num_devices
    inside = min(8, cluster.scale_up_domain)
    tps = [run.tp] if run.tp else [t for t in (1, 2, 4, 8) if t <= inside and model.num_attention_heads % t == 0]
    pps = [run.pp] if run.pp else [p for p in (1, 2, 4, 8, 16, 32) if p <= model.num_hidden_layers]
    cps = [run.cp] if run.cp else [c for c in (1, 2, 4, 8, 16) if c == 1 or run.seq_len // c >= _FEWEST_TOKENS]
    found = []
    for tp, pp, cp in product(tps, pps, cps):
        if devices % (tp * pp * cp):
            continue
        few = run.batch is not None and run.batch < devices // (tp * pp)
        if cp > 1 and not run.cp and not few:
            continue  # sequences are cut only where there are too few of them
        found.append(Mapping(tp=tp, pp=pp, cp=cp))
    return found


def _replicas(cluster: ClusterSpec, mapping: Mapping) -> int:
    return cluster.num_devices // (mapping.tp * mapping.pp * mapping.cp)


def _holds(run: Unmapped, cluster: ClusterSpec, mapping: Mapping) -> bool:
    memory, params, cut = cluster.device.memory_bytes, count_parameters(run.model).total, mapping.tp * mapping.pp
    if run.frozen_bytes:
        return params / cut * run.frozen_bytes < 0.8 * memory
    return params / cut * (6 + 12 * cut / cluster.num_devices) < 0.5 * memory


def _accumulates(run: Unmapped, cluster: ClusterSpec, mapping: Mapping) -> bool:
    """Whether the stated number of micro-batches comes out: batch = micro-batch x replicas x accumulation."""
    if not run.accumulation or not run.batch:
        return True
    each = run.batch / (_replicas(cluster, mapping) * run.accumulation)
    return each == run.micro_batch if run.micro_batch else each >= 1 and each == int(each)


def _whole(run: Unmapped, cluster: ClusterSpec, mapping: Mapping) -> bool:
    return not run.batch or run.batch % _replicas(cluster, mapping) == 0


def _seconds(run: Unmapped, cluster: ClusterSpec, mapping: Mapping) -> float:
    """Estimated time of a step: gradients travel next to one micro-batch, nothing else overlaps."""
    model, device = run.model, cluster.device
    replicas = _replicas(cluster, mapping)
    sequences = max((run.batch or replicas * (run.accumulation or 4 * mapping.pp)) / replicas, 1.0)
    micro_batches = run.accumulation or max(sequences / (run.micro_batch or 1), 1.0)
    tokens = sequences * run.seq_len / mapping.cp
    weights = count_parameters(model)
    work = 2.0 * weights.active * (2.0 if run.frozen_bytes else _PASSES) * tokens / (mapping.tp * mapping.pp)
    busy = work / (_USUAL_RATE * device.peak("bf16"))
    layers = model.num_hidden_layers / mapping.pp
    hidden = 2.0 * model.hidden_size * tokens
    heads = model.num_key_value_heads or model.num_attention_heads
    keys = 4.0 * heads * (model.head_dim or model.hidden_size // model.num_attention_heads) * tokens / mapping.tp
    tensor = 4.0 * 2.0 * hidden * (mapping.tp - 1) / mapping.tp * layers / _rate(cluster, mapping.tp)
    context = _PASSES * keys * (mapping.cp - 1) * layers / _rate(cluster, mapping.tp * mapping.cp)
    bubble = (mapping.pp - 1) / micro_batches
    trained = 0.0 if run.frozen_bytes else weights.total / (mapping.tp * mapping.pp)
    ranks = replicas * mapping.cp
    gradients = _SENT_BYTES * trained * (ranks - 1) / max(ranks, 1) / _rate(cluster, mapping.tp * ranks)
    return (busy + tensor + context) * (1.0 + bubble) + max(gradients - busy / micro_batches, 0.0)


def _rate(cluster: ClusterSpec, ranks: int) -> float:
    """Bytes a second of one device among so many neighbouring ranks."""
    if ranks <= cluster.scale_up_domain:
        return cluster.scale_up.bytes_per_s
    out = cluster.scale_out
    return min(out.nics_per_node * out.nic_bytes_per_s / cluster.devices_per_node, cluster.scale_up.bytes_per_s)
