"""Seconds of one iteration in closed form: a table over tokens from the engine, and what grows evenly next to it.

    T = linear(n) + pairs · prefill_pair + kv · decode_kv + window · window_kv + sequences · per_sequence [+ prompts]
        [- what techniques save by running launches side by side]

`linear` holds everything that depends on the number of computed tokens alone. Attention is linear in its own measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints
from windtunnel.cost.serving import ServingCoefficients
from windtunnel.serving.iteration.attention import AttentionCosts, attention_costs
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.iteration.linear_layers import Layers, Linear
from windtunnel.serving.iteration.overlap_savings import Overlap

KNOT_RATIO = 1.12
"""Neighbouring numbers of tokens in the table: linear interpolation is within 0.5 % of the engine (tests)."""


@dataclass(frozen=True, slots=True)
class Drafts:
    """Seconds and bytes that drafting adds to iterations (`serving.speculation`)."""

    tokens: Ints
    steps_s: Floats
    """(G,) seconds of the passes that draft for so many decoding sequences."""
    sequence_s: float
    """Seconds that verifying adds for each decoding sequence next to its tokens: logits, recurrent states."""
    prompts_s: Floats
    """(G,) seconds of the pass over so many tokens of prompts."""
    kv_s: float
    """Seconds per cached token of a decoding sequence: the passes' own attention, a part of `decode_kv_s`."""
    read_bytes: float
    """Weights that a device reads to draft, in an iteration that decodes."""

    def step_s(self, decoding: npt.ArrayLike) -> Floats:
        """Seconds for so many decoding sequences, without their cache."""
        n = np.asarray(decoding, float)
        return np.where(n > 0, np.interp(n, self.tokens, self.steps_s) + n * self.sequence_s, 0.0)

    def prompt_s(self, tokens: npt.ArrayLike) -> Floats:
        """Seconds for so many tokens of prompts."""
        n = np.asarray(tokens, float)
        return np.where(n > 0, np.interp(n, self.tokens, self.prompts_s), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationModel:
    """Closed form of one instance's iteration: seconds, with tokens counted over the whole instance."""

    linear: Linear
    base_s: float
    """Seconds once an iteration: host, gaps between kernels, the head's weights."""
    prefill_pair_s: float
    prefill_token_s: float
    """Seconds per prompt token in windowed layers."""
    decode_kv_s: float
    window_kv_s: float
    window: int
    per_sequence_s: float
    prefill_floor_s: float
    """Least seconds of an iteration with prompts: the host launches its kernels one by one, ahead of the device."""
    request_s: float
    """Seconds once a request, outside of the engine."""
    attention: AttentionCosts
    coefficients: ServingCoefficients
    overlap: Overlap | None = None
    """Seconds that techniques save by running launches side by side; None without such techniques."""
    step_tokens: int = 1
    """Tokens that a decoding sequence computes in a step: one, and those that were drafted."""
    drafts: Drafts | None = None
    captured: int = 0
    """Tokens up to which iterations with prompts run captured graphs, which need no launches one by one."""
    cp: int = 1
    """Ranks that cut prompts along their tokens; decoding sequences are computed on all of them."""

    def computed(self, tokens: float, prompt_tokens: float) -> float:
        """Return the tokens that the fullest rank computes, over which the table is made."""
        return tokens - prompt_tokens + prompt_tokens / self.cp

    def table(self, most: int) -> Floats:
        """(most + 1,) seconds of an iteration over 0, 1, … tokens, `base_s` included."""
        n = np.arange(most + 1)
        return np.asarray(np.interp(n, self.linear.tokens, self.linear.seconds) + self.base_s)

    def tables(self, most: int, graphs: Sequence[int] = (), most_seqs: int = 0, ranks: int = 1) -> Floats:
        """(2, most + 1): `table`, and the part of it that each rank of attention data parallelism does for its own.

        With drafts (4, most + 1): what they add for so many decoding sequences, and for so many tokens of prompts.

        Args:
            most: tokens.
            graphs: sequences of captured graphs that decode steps are padded to; none: no padding.
            most_seqs: up to so many tokens an iteration counts as a decode step.
            ranks: of attention data parallelism, which pad alike.
        """
        plain = np.arange(most + 1)
        n = padded(plain, graphs, most_seqs, ranks)
        whole = self.table(max(most, int(n.max())))[n]
        own = np.interp(n, self.linear.tokens, self.linear.seconds - self.linear.shared)
        if self.drafts is None:
            return np.stack([whole, own])
        return np.stack([whole, own, self.drafts.step_s(plain), self.drafts.prompt_s(plain)])

    def seconds(
        self,
        tokens: float,
        *,
        pairs: float = 0.0,
        prompt_tokens: float = 0.0,
        kv: float = 0.0,
        window_kv: float = 0.0,
        sequences: float = 1.0,
        decoding: float = 0.0,
    ) -> float:
        """Seconds of one iteration.

        Args:
            tokens: tokens computed in it, prompts and decodes.
            pairs: query-key pairs of its prompt chunks.
            prompt_tokens: tokens of its prompt chunks.
            kv: cached tokens of its decoding sequences.
            window_kv: cached tokens inside the window.
            sequences: prompts and decodes of the batch.
            decoding: sequences that decode (read where tokens are drafted).
        """
        tokens = self.computed(tokens, prompt_tokens)
        out = float(np.interp(tokens, self.linear.tokens, self.linear.seconds)) + self.base_s
        prompt_s = pairs * self.prefill_pair_s + prompt_tokens * self.prefill_token_s
        decode_s = kv * self.decode_kv_s + window_kv * self.window_kv_s
        if self.overlap is not None:
            out -= self.overlap.saved(tokens, prompt_s, decode_s)
        out += prompt_s + decode_s + sequences * self.per_sequence_s
        if self.drafts is not None:
            out += float(self.drafts.step_s(decoding) + self.drafts.prompt_s(prompt_tokens))
        return max(out, self.prefill_floor_s) if prompt_tokens and tokens > self.captured else out


def padded(n: Ints, graphs: Sequence[int], most_seqs: int, ranks: int) -> Ints:
    """Tokens that a decode step of `n` computes: the next captured size, on every rank; beyond the last as they are."""
    sizes = np.array(sorted(graphs), np.int64) * ranks
    if not len(sizes):
        return n
    up = sizes[np.minimum(np.searchsorted(sizes, n), len(sizes) - 1)]
    return np.where((n > 0) & (n <= most_seqs) & (n <= sizes[-1]), up, n)


def knots(most: int) -> Ints:
    """Numbers of tokens of a table up to `most`."""
    count = max(int(np.log(max(most, 2)) / np.log(KNOT_RATIO)) + 2, 2)
    return np.unique(np.concatenate([[1, 2, 3, 4], np.geomspace(1, most, count).astype(np.int64), [most]]))


def iteration_model(
    layers: Layers, *, most_tokens: int, cuda_graphs: bool = True, engine: bool = True
) -> IterationModel:
    """Build the closed form of one instance.

    Args:
        layers: layers of the instance, under the engine's coefficients on the device.
        most_tokens: largest number of tokens that an iteration may compute.
        cuda_graphs: whether decode iterations run captured graphs.
        engine: whether the table comes from the engine; else from `Layers.alone`, the same numbers sooner.
    """
    model, shape = layers.model, layers.shape
    coefficients = _with_ranks(layers.c, shape)
    layers = layers.under(coefficients)
    linear = (layers.price if engine else layers.alone)(knots(most_tokens))
    attention = attention_costs(model, layers.device, shape, coefficients)
    gaps_s = coefficients.layer_s + (0.0 if cuda_graphs else coefficients.launch_layer_s)
    casts_s = len(model.layer_kinds()) * coefficients.quantise_layer_s if shape.linear.casts else 0.0
    floor_s = coefficients.host_s + layers.eager_depth() * coefficients.prompt_layer_s
    if shape.host_ahead:
        coefficients = _hidden(coefficients, shape, linear)
    told_s = (coefficients.sequence_s + coefficients.stream_s) / shape.dp
    return IterationModel(
        linear=linear,
        base_s=coefficients.host_s + layers.depth() * gaps_s + casts_s + linear.head_s + layers.placement_s(),
        prefill_pair_s=attention.prompt_pair_s,
        prefill_token_s=attention.windowed_token_s,
        decode_kv_s=attention.decode_kv_s,
        window_kv_s=attention.decode_window_s,
        window=model.attended_window,
        per_sequence_s=told_s + linear.head_row_s + attention.decode_state_s,
        prefill_floor_s=floor_s if cuda_graphs else 0.0,
        request_s=coefficients.request_s,
        attention=attention,
        coefficients=coefficients,
    )


def _hidden(c: ServingCoefficients, shape: Shape, linear: Linear) -> ServingCoefficients:
    """Coefficients where the host works next to the device: what it needs longer than any batch takes is left.

    A batch of n tokens has at most n sequences, and takes at least its linear layers.
    """
    left = c.host_s + c.sequence_s / shape.dp * linear.tokens - linear.seconds
    return replace(c, host_s=max(float(left.max()), 0.0), sequence_s=0.0)


def _with_ranks(c: ServingCoefficients, shape: Shape) -> ServingCoefficients:
    """Coefficients of an instance: what its host does more for several ranks is part of what it does."""
    ranks = shape.tp * shape.pp * shape.dp * shape.cp
    if ranks == 1 or not (c.ranks_s or c.ranks_sequence_s):
        return c
    return replace(c, host_s=c.host_s + c.ranks_s, sequence_s=c.sequence_s + ranks * c.ranks_sequence_s)
