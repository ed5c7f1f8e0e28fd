"""The step with every operator inlined: what the reduction of segments to one task an instruction is held against.

The step program carries one task per instruction (or per gradient bucket), with the mean demands of its segments. Here
each of these tasks is replaced by the launches of its layers, in order, on a computation stream and a stream for the
collectives inside layers; everything else of the program stays. Slow, for small steps and tests.

The two levels differ where something runs beside a segment: the reduced task is slowed by its mean demand, the inlined
kernels each by their own. Host time is not inlined: compare with `host_kernel_s` and `moe_sync_s` set to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Floats, Mask, Rows
from windtunnel.engine import simulate
from windtunnel.graph import PREDICTED
from windtunnel.parallel.recompute import recomputing
from windtunnel.pricing.segments import COMM_WEIGHT
from windtunnel.program.segment import COMPUTE, Segment
from windtunnel.program.tables import Resources, Streams, TaskTable, Timeline
from windtunnel.training.stage_costs.stage_costs import StageCosts
from windtunnel.training.step.pipeline_p2p import p2p_work
from windtunnel.training.step_setup import PreparedStep
from windtunnel.training.task_builder import RATES, S_COMPUTE, STREAMS, T_B, T_F, T_SEND, T_W, TAGS

S_LAYER = len(STREAMS)
"""Stream of the collectives inside layers, after the streams of the step."""
WIDTH = len(STREAMS) + 1
MOST_LAUNCHES = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Launches of one task of the step program."""

    alone_s: Floats
    comm: Mask
    work: Floats
    """(n, 4): SM-seconds, device memory, scale-up and scale-out bytes."""
    inside: list[tuple[int, int]]
    """(launch, launch of this piece that it follows)."""
    across: list[tuple[int, int, int]]
    """(launch, earlier piece, launch of that piece that it follows)."""
    roots: list[int]
    """Launches that follow none of this piece: what the task waits for, they wait for."""
    ends: list[int]
    """Launches that none of this piece follows: what waits for the task waits for them."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """The inlined program and how it came about."""

    tasks: TaskTable
    streams: Streams
    resources: Resources
    source: Rows
    """Task of the step program that each task stands for, shape (n,)."""


def _layers(
    parts: StageCosts, recompute_layers: int | tuple[int, ...] | None, stages: list[int]
) -> list[list[dict[str, Segment]]]:
    """Segments by direction of every layer of every virtual stage, in depth order."""
    segments = parts.segments
    names = [*parts.graph.blocks, "embedding", "head"]
    full = {name: dict(zip("FBW", segments[3 * i : 3 * i + 3], strict=True)) for i, name in enumerate(names)}
    plain = full
    if recompute_layers is not None:
        rest = segments[3 * len(names) :]
        plain = {
            name: {"F": full[name]["F"], "B": rest[2 * j], "W": rest[2 * j + 1]}
            for j, name in enumerate(parts.graph.blocks)
        }
    again = recomputing([len(letters) for letters in parts.block_kinds], stages, recompute_layers)
    out = []
    for k, letters in enumerate(parts.block_kinds):
        chosen = [(full if repeats else plain)[kind] for kind, repeats in zip(letters, again[k], strict=True)]
        out.append(chosen)
    return out


def _bodies(
    parts: StageCosts, layers: list[list[dict[str, Segment]]], direction: str, k: int, pieces: int
) -> list[tuple[Segment, float, float]]:
    """Segments of one instruction in order, each with the share of the instruction's pieces that it spans.

    Returns:
        (segment, first, last): the segment spans the pieces from position `first` to `last`, half of one for a layer of
        a two-layer piece; the embedding and the head belong to the outermost piece.
    """
    at = 3 * len(parts.graph.blocks) + "FBW".index(direction)
    embedding, head = parts.segments[at], parts.segments[at + 3]
    own = [layer[direction] for layer in layers[k]]
    count = max(len(own), 1)
    ordered = own if direction == "F" else own[::-1]
    spans = [(segment, i * pieces / count, (i + 1) * pieces / count) for i, segment in enumerate(ordered)]
    shallow = [embedding] if k == 0 else []
    deep = [head] if k == len(layers) - 1 else []
    if deep and parts.graph.further_tokens:
        at = 3 * list(parts.graph.blocks).index(PREDICTED) + "FBW".index(direction)
        deep += [parts.segments[at], embedding, head] * parts.graph.further_tokens
    deep = deep if direction == "F" else deep[::-1]
    first, last = (shallow, deep) if direction == "F" else (deep, shallow)
    return [*((x, 0.0, 0.0) for x in first), *spans, *((x, float(pieces), float(pieces)) for x in last)]


def _pieces(spans: Sequence[tuple[Segment, float, float]], pieces: int, capacity: Floats) -> list[_Piece]:
    """Chain segments and cut them into pieces: at layers where pieces are layers or more, else by computation time."""
    alone: list[float] = []
    comm: list[bool] = []
    work: list[list[float]] = []
    deps: list[list[int]] = []
    where: list[int] = []
    sinks: list[int] = []
    for segment, first, last in spans:
        offset = len(alone)
        launches = segment.launches
        total = sum(x.alone_s for x in launches if x.stream == COMPUTE) or 1.0
        at = 0.0
        followed = {d for x in launches for d in x.after}
        for launch in launches:
            alone.append(launch.alone_s)
            comm.append(launch.stream != COMPUTE)
            work.append([launch.sm * launch.alone_s, launch.hbm_bytes, launch.up_bytes, launch.out_bytes])
            deps.append([offset + d for d in launch.after] or list(sinks))
            length = 0.0 if launch.stream != COMPUTE else launch.alone_s
            # a layer that lies inside one piece goes there whole; a longer one is cut where its time crosses
            inside = last - first <= 1.0 + 1e-9
            position = (first + last) / 2 if inside else first + (last - first) * (at + length / 2) / total
            where.append(int(min(max(position, 0.0), pieces - 0.5)))
            at += length
        if launches:
            sinks = [offset + i for i in range(len(launches)) if i not in followed]
    table = np.minimum(np.array(work).reshape(-1, 4), np.array(alone)[:, None] * capacity[None, :4])
    table = np.pad(table, ((0, 0), (0, len(RATES) - 4)))
    piece_of = np.maximum.accumulate(np.array(where, np.int64)) if where else np.zeros(0, np.int64)
    start = np.searchsorted(piece_of, np.arange(pieces + 1))
    out = []
    for j in range(pieces):
        a, b = int(start[j]), int(start[j + 1])
        inside_deps = [(i - a, d - a) for i in range(a, b) for d in deps[i] if d >= a]
        across = [(i - a, int(piece_of[d]), d - int(start[piece_of[d]])) for i in range(a, b) for d in deps[i] if d < a]
        held = {i for i, _ in inside_deps}
        used = {d for _, d in inside_deps}
        out.append(
            _Piece(
                alone_s=np.array(alone[a:b]),
                comm=np.array(comm[a:b], np.bool_),
                work=table[a:b],
                inside=inside_deps,
                across=across,
                roots=[i for i in range(b - a) if i not in held],
                ends=[i for i in range(b - a) if i not in used],
            )
        )
    return out


def expand(prepared: PreparedStep) -> Expanded:
    """The step program with the launches of every segment in place of its instructions.

    Raises:
        ValueError: the inlined step would have more than two million launches.
    """
    x = prepared
    program, old, table = x.program, x.program.tasks, x.schedule
    capacity = x.program.resources.capacity[: len(RATES)]
    compute = (old.stream_idx % len(STREAMS) == S_COMPUTE) & np.isin(old.tag, (T_F, T_B, T_W)) & (program.row >= 0)
    counts = np.diff(program.piece_ptr)
    piece = np.full(len(old), -1)
    piece[program.compute_task] = np.arange(len(program.compute_task)) - np.repeat(program.piece_ptr[:-1], counts)
    tail = compute & (
        piece < 0
    )  # the second phase of a piece: its exposed transfers are among the launches of the first
    compute &= ~tail
    stages = table.placement[:, 0].astype(np.int64)
    layers = _layers(x.stages, x.plan.recompute.num_layers, stages.tolist())
    cache: dict[tuple[int, int, int], list[_Piece]] = {}

    def pieces_of(row: int) -> list[_Piece]:
        key = (int(table.kind[row]), int(program.virtual_stage[row]), int(counts[row]))
        if key not in cache:
            spans = _bodies(x.stages, layers, "FBW"[key[0]], key[1], key[2])
            cache[key] = _pieces(spans, key[2], capacity)
        return cache[key]

    total = sum(len(pieces_of(int(program.row[i]))[int(piece[i])].alone_s) for i in np.flatnonzero(compute))
    if total > MOST_LAUNCHES:
        raise ValueError(f"{total} launches are too many to inline; use fewer micro-batches or layers")

    old_work = np.zeros((len(old), len(RATES)))
    owner = np.repeat(np.arange(len(old)), np.diff(old.rate_ptr))
    old_work[owner, old.rate_idx % len(RATES)] = old.rate_work
    _load_sends(x, old_work)

    alone: list[Floats] = []
    stream: list[Rows] = []
    work: list[Floats] = []
    source: list[Rows] = []
    pairs: list[tuple[int, int]] = []
    base = np.zeros(len(old), np.int64)
    roots: list[list[int]] = [[] for _ in range(len(old))]
    ends: list[list[int]] = [[] for _ in range(len(old))]
    task_of: dict[tuple[int, int], int] = {}
    before: dict[int, list[int]] = {}
    """Stage → launches after which its computation stream is free."""
    n = 0
    for i in range(len(old)):
        stage, code = divmod(int(old.stream_idx[i]), len(STREAMS))
        base[i] = n
        if tail[i]:
            ends[i] = before[stage]
            continue
        if not compute[i]:
            alone.append(old.alone_s[i : i + 1])
            stream.append(np.array([stage * WIDTH + code]))
            work.append(old_work[i : i + 1])
            source.append(np.array([i]))
            roots[i] = ends[i] = [n]
            if code == S_COMPUTE:
                before[stage] = [n]
            n += 1
            continue
        row, j = int(program.row[i]), int(piece[i])
        task_of[row, j] = i
        one = pieces_of(row)[j]
        size = len(one.alone_s)
        alone.append(one.alone_s)
        stream.append(stage * WIDTH + np.where(one.comm, S_LAYER, S_COMPUTE))
        work.append(one.work)
        source.append(np.full(size, i))
        pairs += [(n + a, n + b) for a, b in one.inside]
        pairs += [(n + a, int(base[task_of[row, q]]) + b) for a, q, b in one.across]
        previous = before.get(stage, [])
        roots[i] = [n + a for a in one.roots]
        ends[i] = [n + a for a in one.ends] or previous
        pairs += [(root, end) for root in roots[i] for end in previous]
        before[stage] = ends[i]
        n += size
    for i in range(len(old)):
        for d in old.dep_idx[old.dep_ptr[i] : old.dep_ptr[i + 1]].tolist():
            pairs += [(root, end) for root in roots[i] for end in ends[d]]
    return _assemble(
        x, np.concatenate(alone), np.concatenate(stream), np.concatenate(work), np.concatenate(source), pairs
    )


def _load_sends(x: PreparedStep, work: Floats) -> None:
    """Bytes of every hop: the reduced program leaves them out where no data-parallel traffic can meet them."""
    send = np.flatnonzero(x.program.tasks.tag == T_SEND)
    if not len(send):
        return
    rows = x.program.row[send]
    stage_of = x.schedule.placement[:, 0].astype(np.int64)
    part = x.program.virtual_stage[rows]
    target = np.where(x.schedule.kind[rows] == T_F, part + 1, part - 1)
    hop = p2p_work(x.stages, x.plan, x.cluster, stage_of[part], stage_of[target])
    most = x.program.tasks.alone_s[send, None] * x.program.resources.capacity[None, 2:4]
    work[send, 2:4] = np.minimum(np.stack([hop.scale_up_bytes, hop.scale_out_bytes], axis=1), most)


def _assemble(
    x: PreparedStep, alone: Floats, stream: Rows, work: Floats, source: Rows, pairs: list[tuple[int, int]]
) -> Expanded:
    old = x.program.tasks
    n, p = len(alone), x.schedule.p
    edges = np.array(sorted(set(pairs)), np.int64).reshape(-1, 2)
    dep_ptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(edges[:, 0], minlength=n), out=dep_ptr[1:])
    used = work > 0
    rate_ptr = np.zeros(n + 1, np.int64)
    np.cumsum(used.sum(axis=1), out=rate_ptr[1:])
    stage = (stream // WIDTH).astype(np.int32)
    n_rates = len(RATES)
    idx = (stage[:, None] * n_rates + np.arange(n_rates, dtype=np.int32)[None, :])[used].astype(np.int32)
    zero = np.zeros(n, np.int32)
    weight = np.where(stream % WIDTH == S_COMPUTE, 1.0, COMM_WEIGHT)
    tasks = TaskTable(
        alone_s=alone,
        weight=weight,
        rank_class=stage,
        tag=old.tag[source],
        stream_ptr=np.arange(n + 1, dtype=np.int64),
        stream_idx=stream.astype(np.int32),
        dep_ptr=dep_ptr,
        dep_idx=edges[:, 1].astype(np.int32),
        rate_ptr=rate_ptr,
        rate_idx=idx,
        rate_work=work[used],
        slot_pool=np.full(n, -1, np.int32),
        slots=zero,
        min_slots=zero,
        waves=zero,
        tags=TAGS,
    )
    streams = Streams(
        np.zeros(p * WIDTH, np.int32), np.repeat(np.arange(p, dtype=np.int32), WIDTH), (*STREAMS, "layer comm") * p
    )
    return Expanded(tasks, streams, replace(x.program.resources), source)


def expanded_timeline(prepared: PreparedStep) -> tuple[Expanded, Timeline]:
    """Inline and simulate."""
    program = expand(prepared)
    return program, simulate(program.tasks, program.streams, program.resources)


def expanded_step(prepared: PreparedStep) -> float:
    """Seconds of the step with every operator inlined."""
    return expanded_timeline(prepared)[1].makespan_s
