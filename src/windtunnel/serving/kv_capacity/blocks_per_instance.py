"""Blocks of an instance: the memory rule on every pipeline stage, and the stage that has least decides."""

from __future__ import annotations

from dataclasses import replace

from windtunnel.errors import Infeasible
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.kv_capacity.base import (
    GIB,
    RULES,
    KvCapacity,
    Memory,
    Stage,
    activation_bytes,
    outside_bytes,
    stages_of,
    visible_bytes,
)
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec

UNLIMITED = 1 << 30


def _per_token(stage: Stage, windowed: float | None) -> tuple[float, float]:
    """(bytes per token without end, share of them that is kept for the window only)."""
    if windowed is not None:
        return stage.full + windowed * stage.windowed, 0.0
    if not stage.full:
        return stage.windowed, 0.0
    return stage.full, stage.windowed / stage.full


def capacity(
    model: ModelSpec,
    cluster: ClusterSpec,
    shape: Shape,
    *,
    rule: str,
    version: tuple[int, ...],
    fraction: float,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    block_size: int,
    sampler_bytes: float,
    cuda_graphs: bool = True,
    num_blocks: int | None = None,
    drafts: tuple[float, float] = (0.0, 0.0),
) -> KvCapacity:
    """The cache that an engine will allocate.

    Args:
        model: what is served.
        cluster: where.
        shape: axes and formats of the instance.
        rule: id of the memory rule.
        version: of the engine; empty for the newest.
        fraction: the rule's knob.
        max_num_seqs: sequences of a batch, per rank of attention data parallelism.
        max_num_batched_tokens: tokens of a batch, per rank.
        block_size: tokens.
        sampler_bytes: see `activation_bytes`.
        cuda_graphs: whether graphs are captured.
        num_blocks: of the instance, where the engine was told.
        drafts: bytes of weights, and of cache per token, that the last stage keeps to draft tokens.

    Raises:
        Infeasible: weights leave no room for one block.
    """
    own = RULES.get(rule)
    known = version or (1 << 20,)
    visible = visible_bytes(cluster.device)
    outside = outside_bytes(shape.ranks * shape.pp)
    peak = activation_bytes(model, shape, max_num_batched_tokens, max_num_seqs, sampler_bytes)
    windowed = 1.0 if model.attention_chunk_size else own.windowed(known)  # chunks are not given back as they end
    best: KvCapacity | None = None
    for i, stage in enumerate(stages_of(model, shape)):
        if i == shape.pp - 1 and drafts != (0.0, 0.0):
            stage = replace(stage, weights=stage.weights + drafts[0], full=stage.full + drafts[1])
        left, words = own.cache_bytes(
            Memory(
                visible=visible,
                weights=stage.weights,
                activations=peak,
                outside=outside,
                fraction=fraction,
                version=known,
                cuda_graphs=cuda_graphs,
            )
        )
        token, share = _per_token(stage, windowed)
        size = token * block_size
        blocks = num_blocks if num_blocks is not None else _blocks(left, size, stage, max_num_seqs)
        if blocks < 1:
            name = f"stage {i} of {shape.pp}" if shape.pp > 1 else "the model"
            raise Infeasible(
                f"{model.name} does not fit {cluster.device.name}: {words} leaves {left / GIB:.2f} GiB for the cache "
                f"of {name}",
                f"{(max(size, stage.state) - left) / GIB:.2f} GiB more a device for one block of {block_size} tokens; "
                f"a larger tp or pp, fewer bits of weights, or a larger {own.knob} would do",
            )
        states = -(-stage.state // size) if size else 0
        ranks = 1 if num_blocks is not None else shape.dp * shape.cp
        lines = [words + f" → {left / GIB:.2f} GiB of cache a device", own.source]
        if num_blocks is not None:
            lines = [f"kv.num_blocks = {num_blocks}"]
        if shape.pp > 1:
            lines.append(f"stage {i} of {shape.pp} has least room")
        if share:
            lines.append(f"windowed layers keep {model.sliding_window} tokens of a sequence")
        if ranks > 1:
            lines.append(f"{ranks} ranks hold tokens of their own")
        found = KvCapacity(
            blocks=blocks * ranks,
            block_size=block_size,
            tokens=blocks * ranks * block_size,
            cache_bytes=left,
            weights_bytes=stage.weights,
            activations_bytes=peak,
            other_bytes=visible - left - stage.weights - peak,
            bytes_per_token=token,
            sequence_blocks=int(states),
            window_share=share,
            basis=tuple(lines),
        )
        if best is None or found.blocks < best.blocks:
            best = found
    assert best is not None
    return best


def _blocks(left: float, size: float, stage: Stage, max_num_seqs: int) -> int:
    """Blocks of one device; without any cache per token only the states of the sequences have to fit."""
    if size:
        return int(left // size)
    return UNLIMITED if left >= stage.state * max_num_seqs else 0
