"""Blocks of an instance: the memory rule on every pipeline stage, and the stage that has least decides."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
STATE_TOKENS = 1 << 20
"""Tokens of a block where nothing is kept for each token: a sequence of any usual length has one block, its states.

Source: vLLM `model_executor/models/config.py`: the block size of models with states alone is the longest sequence.
"""


def _per_token(stage: Stage, windowed: float | None) -> tuple[float, float]:
    """(bytes per token without end, share of them that is kept for the window only)."""
    if windowed is not None:
        return stage.full + windowed * stage.windowed, 0.0
    if not stage.full:
        return stage.windowed, 0.0
    return stage.full, stage.windowed / stage.full


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """What is set for an engine, or its default, that decides the size of its cache."""

    rule: str
    """Id of the engine's memory rule."""
    version: tuple[int, ...]
    """Release of the engine; empty for the newest."""
    fraction: float
    """Knob of the memory rule."""
    max_num_seqs: int
    """Sequences of a batch, per rank of attention data parallelism."""
    max_num_batched_tokens: int
    """Tokens of a batch, per rank of attention data parallelism."""
    block_size: int
    """Tokens of a block."""
    sampler_bytes: float
    """Bytes per logit while tokens are drawn (`activation_bytes`)."""
    cuda_graphs: bool = True
    """Whether graphs are captured."""
    num_blocks: int | None = None
    """Blocks of the instance, where the scenario states them."""
    drafts: tuple[float, float] = (0.0, 0.0)
    """Bytes of weights, and of cache per token, that the last stage keeps to draft tokens."""

    @property
    def release(self) -> tuple[int, ...]:
        """Release of the engine; the newest compares above all known ones."""
        return self.version or (1 << 20,)


def capacity(model: ModelSpec, cluster: ClusterSpec, shape: Shape, settings: CacheSettings) -> KvCapacity:
    """Compute the cache that an engine will allocate: that of the pipeline stage with the fewest blocks.

    Args:
        model: what is served.
        cluster: group of the cluster that the instance is on.
        shape: axes and formats of the instance.
        settings: what is set for the engine.

    Raises:
        Infeasible: weights leave no room for one block.
    """
    stages = stages_of(model, shape)
    if settings.drafts[1] == 0.0 and not any(stage.full or stage.windowed for stage in stages):
        stages = tuple(replace(stage, full=stage.state / STATE_TOKENS, state=0.0) for stage in stages)
        settings = replace(settings, block_size=STATE_TOKENS)
    found = [_of_stage(model, cluster, shape, settings, i, stage) for i, stage in enumerate(stages)]
    return min(found, key=lambda one: one.blocks)


def _of_stage(
    model: ModelSpec, cluster: ClusterSpec, shape: Shape, settings: CacheSettings, i: int, stage: Stage
) -> KvCapacity:
    """Compute the cache of stage `i` of the pipeline."""
    rule, release = RULES.get(settings.rule), settings.release
    visible = visible_bytes(cluster.device)
    peak = activation_bytes(
        model, shape, settings.max_num_batched_tokens, settings.max_num_seqs, settings.sampler_bytes
    )
    if i == shape.pp - 1 and settings.drafts != (0.0, 0.0):
        weights, per_token = settings.drafts
        stage = replace(stage, weights=stage.weights + weights, full=stage.full + per_token)
    left, words = rule.cache_bytes(
        Memory(
            visible=visible,
            weights=stage.weights,
            activations=peak,
            outside=outside_bytes(shape.ranks * shape.pp),
            fraction=settings.fraction,
            version=release,
            cuda_graphs=settings.cuda_graphs,
        )
    )
    windowed = 1.0 if model.attention_chunk_size else rule.windowed(release)  # chunks are not given back as they end
    token, share = _per_token(stage, windowed)
    size = token * settings.block_size
    told = settings.num_blocks
    blocks = told if told is not None else _blocks(left, size, stage, settings.max_num_seqs)
    if blocks < 1:
        name = f"stage {i} of {shape.pp}" if shape.pp > 1 else "the model"
        raise Infeasible(
            f"{model.name} does not fit {cluster.device.name}: {words} leaves {left / GIB:.2f} GiB for the cache "
            f"of {name}",
            f"{(max(size, stage.state) - left) / GIB:.2f} GiB more a device for one block of {settings.block_size} "
            f"tokens; a larger tp or pp, fewer bits of weights, or a larger {rule.knob} would do",
        )
    ranks = 1 if told is not None else shape.dp * shape.cp
    basis = [words + f" → {left / GIB:.2f} GiB of cache a device", rule.source]
    if told is not None:
        basis = [f"kv.num_blocks = {told}"]
    return KvCapacity(
        blocks=blocks * ranks,
        block_size=settings.block_size,
        tokens=blocks * ranks * settings.block_size,
        cache_bytes=left,
        weights_bytes=stage.weights,
        activations_bytes=peak,
        other_bytes=visible - left - stage.weights - peak,
        bytes_per_token=token,
        sequence_blocks=int(-(-stage.state // size) if size else 0),
        window_share=share,
        basis=(*basis, *_remarks(model, shape, i, share, ranks)),
    )


def _remarks(model: ModelSpec, shape: Shape, i: int, share: float, ranks: int) -> list[str]:
    """Say what else decides the blocks: the stage, the window, the ranks."""
    out = []
    if shape.pp > 1:
        out.append(f"stage {i} of {shape.pp} has least room")
    if share:
        out.append(f"windowed layers keep {model.attended_window} tokens of a sequence")
    if ranks > 1:
        out.append(f"{ranks} ranks hold tokens of their own")
    return out


def _blocks(left: float, size: float, stage: Stage, max_num_seqs: int) -> int:
    """Blocks of one device; without any cache per token only the states of the sequences have to fit."""
    if size:
        return int(left // size)
    return UNLIMITED if left >= stage.state * max_num_seqs else 0
