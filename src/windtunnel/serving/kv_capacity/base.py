"""How much cache an instance has: what every engine's memory rule starts from, and what comes out.

A device holds weights, the peak of activations, what lies outside of the framework (contexts, communicators) and the
cache. Engines differ in which of these their memory knob covers; each rule is one file next to this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol

from windtunnel.registry import Registry
from windtunnel.serving.iteration.attention import kept_bytes
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.iteration.weight_bytes import layers_of_stages, local_blocks, stage_bytes
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec

GIB = float(1 << 30)
DRIVER_BYTES, DRIVER_FRACTION = 0.35 * GIB, 0.0025
"""What the driver keeps of the memory that it reports: A10 22.07 of 22.49 GiB, RTX 3090 23.56 of 24.00, L20 44.52 of
44.99, H100 79.14–79.19 of 79.65 GiB are visible to a process (start-up logs of vLLM and PyTorch)."""
CONTEXT_BYTES = 0.45 * GIB
"""A CUDA context with loaded kernels (assumed: 22.93 of 23.56 GiB free at start on an RTX 3090, logs of vLLM)."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One device of one pipeline stage. Bytes."""

    weights: float
    full: float
    """Cache per token in layers that attend to everything."""
    windowed: float
    """The same in layers with a window."""
    state: float
    """Recurrent states per sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a memory rule reads, for one device. Bytes; `fraction` is the engine's knob."""

    visible: float
    """What a process sees of the device's memory."""
    weights: float
    activations: float
    outside: float
    """Communicators and workspaces outside of the framework's allocator, without the context."""
    fraction: float
    version: tuple[int, ...]
    cuda_graphs: bool


class MemoryRule(Protocol):
    """An engine's memory rule: one file of this package, found by its registry."""

    knob: ClassVar[str]
    """Field of `ServingLimits` that sets `Memory.fraction`."""
    source: ClassVar[str]

    def cache_bytes(self, memory: Memory) -> tuple[float, str]:
        """Bytes for the cache on one device, and how they were found, in words."""
        ...

    def windowed(self, version: tuple[int, ...]) -> float | None:
        """How layers with a window are stored.

        None when only the window is kept, 1 when every token is, a fraction when they have a pool of their own of that
        many tokens per token of the others.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCapacity:
    """The cache of one instance. Bytes are of one device of the stage that decides."""

    blocks: int
    """KV blocks of the instance, all ranks of attention data parallelism together."""
    block_size: int
    tokens: int
    cache_bytes: float
    weights_bytes: float
    activations_bytes: float
    other_bytes: float
    bytes_per_token: float
    sequence_blocks: int = 0
    """Blocks that each sequence takes whatever its length: recurrent states."""
    window_share: float = 0.0
    """Cache of windowed layers over that of full ones, per token inside the window."""
    basis: tuple[str, ...] = ()


RULES: Registry[MemoryRule] = Registry("memory_rules", package="windtunnel.serving.kv_capacity", noun="memory rule")


def visible_bytes(device: DeviceSpec) -> float:
    """Memory that a process sees."""
    return device.memory_bytes * (1.0 - DRIVER_FRACTION) - DRIVER_BYTES


def outside_bytes(ranks: int) -> float:
    """Communicators, handles and workspaces: 0.05–0.16 GiB on one device, 0.55 on two (logs of vLLM); others add.

    Source: 0.13 and 0.54 to 0.55 GiB (llm-d-incubation/llm-d-planner docs/empirical-vllm-memory-results.md); each rank
    beyond two is assumed: about 1 GiB was logged on eight.
    """
    return (0.13 + (0.42 + 0.1 * (ranks - 2) if ranks > 1 else 0.0)) * GIB


def activation_bytes(model: ModelSpec, shape: Shape, tokens: int, seqs: int, sampler_bytes: float) -> float:
    """Peak of a profiling run: the widest part of a layer, or the sampler, whichever is more.

    Source: one gated MLP holds four hidden and three intermediate rows a token in 16 bits. That gives 0.23 GiB at 2,048
    tokens of Llama-3.1-8B and 4.34 GiB at 32,768 tokens of Qwen2.5-7B, where vLLM logged 0.22 and 4.35 GiB.

    Args:
        model: what is served.
        shape: its cut.
        tokens: of the largest batch, per rank of attention data parallelism.
        seqs: rows of logits of the largest batch, per rank.
        sampler_bytes: bytes per logit while tokens are drawn.
    """
    h = float(model.hidden_size)
    wide = 3.0 * model.widest_network / shape.tp
    if model.num_experts:
        inner = model.moe_intermediate_size / shape.etp
        rows = model.num_experts_per_tok * shape.dp / shape.ep
        wide = max(wide, rows * (max(2.0 * inner, h) + inner))
    return max(tokens * 2.0 * (4.0 * h + wide), seqs * float(model.vocab_size) * sampler_bytes)


@lru_cache(maxsize=1024)
def stages_of(model: ModelSpec, shape: Shape) -> tuple[Stage, ...]:
    """Weights and cache of each pipeline stage, per device; a search asks for them at each of its batch limits."""
    weights = stage_bytes(model, shape, local_blocks(model, shape))
    # where experts keep tokens, every rank has the caches of all ranks' sequences
    copies = shape.dp if shape.experts is not None and shape.experts.coherent else 1
    out = []
    for kinds, own in zip(layers_of_stages(model, shape.pp), weights, strict=True):
        cache = kept_bytes(model, shape, kinds)
        out.append(Stage(own, copies * cache.full, copies * cache.windowed, cache.state))
    return tuple(out)
