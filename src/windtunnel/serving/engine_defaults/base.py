"""Defaults of an engine, where the scenario is silent: limits, memory knob, policy, by release and device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from windtunnel.registry import Registry
from windtunnel.serving.iteration.instance_shape import ExpertLayout, Shape
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingLimits

GIB = float(1 << 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Tokens and sequences; `sources` names where each was read, by field."""

    policy: str
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    memory_fraction: float
    memory_rule: str
    chunked_prefill: bool
    prefix_caching: bool
    cuda_graph_max_batch: int
    sampler_bytes: float
    """Bytes per logit while tokens are drawn (`kvcache.base.activation_bytes`)."""
    per_rank: bool = True
    """Whether limits of a batch hold for each rank of attention data parallelism, or for all together."""
    stream_interval: int = 1
    scheduler_interval: int = 1
    captured_tokens: int = 0
    """Tokens up to which iterations with prompts run captured graphs."""
    vector_attention: bool = False
    """Whether the engine's decode attention takes each query head alone, without matrix units."""
    fused_casts: bool = False
    """Whether its compiler puts casts of activations into the norms and activations before them."""
    narrow_prompts: bool = False
    """Whether its attention of prompts multiplies in 8 bits."""
    gathered: bool = False
    """Whether ranks with attention of their own gather all tokens for the experts they share, and scatter the sums."""
    expert_layout: ExpertLayout = field(default_factory=ExpertLayout)
    """How its kernels lay experts of 4 bits out."""
    fits_longest: bool = False
    """Whether it refuses to start when the cache cannot hold one request of `max_model_len`."""
    sources: dict[str, str] = field(default_factory=dict)


class Engine(Protocol):
    """A serving engine: one file of this package, found by its registry."""

    name: ClassVar[str]

    def defaults(
        self, version: tuple[int, ...], model: ModelSpec, device: DeviceSpec, shape: Shape, limits: ServingLimits
    ) -> Defaults:
        """Defaults of a release on a device. An empty version means the newest that is known.

        Args:
            version: numbers of the release.
            model: what is served.
            device: of the instance.
            shape: its axes.
            limits: what the scenario states, where a default depends on it.
        """
        ...


ENGINES: Registry[Engine] = Registry("engines", package="windtunnel.serving.engine_defaults", noun="engine")


def version_of(text: str) -> tuple[int, ...]:
    """Numbers of a release: `v0.8.5.post1` → (0, 8, 5); empty for what has none."""
    out: list[int] = []
    for part in text.strip().lower().lstrip("v").split("."):
        digits = ""
        for letter in part:
            if not letter.isdigit():
                break
            digits += letter
        if not digits:
            break
        out.append(int(digits))
        if digits != part:
            break
    return tuple(out)


def newest(version: tuple[int, ...]) -> tuple[int, ...]:
    """A version that compares above all known ones where none is stated."""
    return version or (1 << 20,)
