"""What a method of drafting is: a network that proposes tokens one after the other, or none."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from windtunnel.errors import ProblemList
from windtunnel.registry import Registry
from windtunnel.serving.iteration.attention import cached_bytes
from windtunnel.serving.iteration.instance_shape import Shape, format_of
from windtunnel.serving.iteration.weight_bytes import block_bytes, local_blocks
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.speculation import SpeculationSpec

WHERE = "serving.speculation"


@dataclass(frozen=True, slots=True)
class Network:
    """Layers that draft, as one device of the instance has them."""

    model: ModelSpec
    shape: Shape
    kinds: Counter[str]
    """Blocks of its graph that one drafted token runs through."""
    reads_hidden: bool
    """It continues the model's own hidden states: its first pass takes all tokens that were kept, prompts included."""
    own_ends: bool
    """It has an embedding and a head of its own; else it shares those of the model."""

    def weight_bytes(self) -> float:
        """On one device."""
        blocks = local_blocks(self.model, self.shape)
        layers = sum(count * block_bytes(blocks[kind], self.shape, self.model) for kind, count in self.kinds.items())
        ends = self.shape.ends.bytes_per_weight * self.model.vocab_size * self.model.hidden_size / self.shape.tp
        return layers + (ends * (1 if self.model.tie_word_embeddings else 2) if self.own_ends else 0.0)

    def cache_bytes(self) -> float:
        """Per token, on one device."""
        return sum(self.kinds.values()) * cached_bytes(self.model, self.shape, windowed=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """A scenario's speculation, decided."""

    method: str
    tokens: int
    """Drafted tokens a step, k."""
    acceptance: tuple[float, ...]
    """Chance of each when those before it were kept."""
    network: Network | None
    scan_s: float = 0.0
    """Seconds a cached token that the host looks through for a match."""
    assumed: tuple[tuple[str, object, str], ...] = ()
    variation: str = "none"
    acceptance_std: float = 0.0
    order: str = "serial"
    verifiers: int = 1
    """Instances of the model that verify together."""
    draft_cluster: ClusterSpec | None = None
    """Where the network runs, where that is not the model's devices."""
    early_exit: float = 0.5
    reuse: float = 0.0
    tokens_per_step: float = 1.0
    """Mean number of tokens that a sequence makes in a step."""

    @property
    def slots(self) -> int:
        """Tokens of a sequence beyond those kept that the cache holds at most."""
        return max(self.tokens * self.verifiers, math.ceil(self.tokens_per_step))

    def devices(self, instance: int) -> int:
        """Devices of one instance of so many: every verifier is one, a draft apart has its own."""
        apart = self.network.shape.tp if self.draft_cluster is not None and self.network is not None else 0
        return instance * self.verifiers + apart

    @property
    def memory(self) -> tuple[float, float]:
        """Bytes of weights, and of cache per token, that drafting takes of the model's devices."""
        if self.network is None or self.draft_cluster is not None:
            return 0.0, 0.0
        return self.network.weight_bytes(), self.network.cache_bytes()

    @property
    def verified(self) -> int:
        """Tokens that a decoding sequence computes in one pass of the model: those drafted, and one more."""
        return self.tokens + 1


def expected_tokens(acceptance: tuple[float, ...]) -> float:
    """E = 1 + Σ_i Π_{j ≤ i} a_j.

    Source: Leviathan et al. 2023 (arXiv 2211.17192), equation 1, for one acceptance at all positions:
    E = (1 − a^(k+1)) / (1 − a).
    """
    total = kept = 1.0
    for a in acceptance:
        kept *= a
        total += kept
    return total


class DraftMethod(Protocol):
    """One file of this package."""

    title: ClassVar[str]
    source: ClassVar[str]
    acceptance: ClassVar[tuple[float, ...]]
    """What was published: by position, the last for all further ones."""
    acceptance_source: ClassVar[str]
    scan_s: ClassVar[float]

    def network(
        self, spec: SpeculationSpec, model: ModelSpec, cluster: ClusterSpec, shape: Shape, problems: ProblemList
    ) -> Network | None:
        """What drafts; None: no network does. Problems of the scenario are added."""
        ...


METHODS: Registry[DraftMethod] = Registry(
    "draft_methods", package="windtunnel.serving.speculation.methods", noun="method"
)


def one_layer(model: ModelSpec, **changes: object) -> ModelSpec:
    """A network of one layer of the model's width that attends to everything, joined to its hidden states."""
    plain: dict[str, object] = {
        "num_hidden_layers": 1,
        "hybrid_override_pattern": None,
        "full_attention_interval": None,
        "first_k_dense_replace": 0,
        "moe_layer_freq": 1,
        "sliding_window": None,
        "num_nextn_predict_layers": 1,
    }
    return model.model_copy(update=plain | changes)


def in_format(shape: Shape, weights: str, cluster: ClusterSpec) -> Shape:
    """The same cut with another format of weights."""
    fmt = format_of(weights, cluster.device)
    return replace(shape, linear=fmt, expert=fmt)
