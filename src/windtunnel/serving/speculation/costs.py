"""What drafting and verifying add to an iteration.

A step of D sequences computes D·(k + 1) tokens: the table of linear layers is read there, so that more experts are
touched and products grow. Attention reads each sequence's cache once for k + 1 queries: as many bytes, more FLOPs.
Drafting comes beside: k passes one after the other through the network that drafts, of which the first takes what the
last step kept and every further one a token a sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.cost.serving import ServingCoefficients
from windtunnel.serving.iteration.attention import attention_costs
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.iteration.iteration_model import Drafts, IterationModel, knots
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.speculation.base import Drafting, Network
from windtunnel.serving.speculation.orders import ORDERS, Pair
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec

SYNC_S = 20e-6
"""Tokens from one device to another: a copy to the host and one back, next to nothing else (assumed)."""


@dataclass(frozen=True, slots=True)
class Passes:
    """One pass of the network that drafts."""

    tokens: Ints
    seconds: Floats
    base_s: float
    """Gaps between its kernels, weights of its head."""
    row_s: float
    """Per token that is drawn."""

    def at(self, tokens: Floats, rows: Floats) -> Floats:
        """Seconds over so many tokens of which so many rows are drawn."""
        return np.asarray(np.interp(tokens, self.tokens, self.seconds) + self.base_s + rows * self.row_s)


def passes_of(
    network: Network, cluster: ClusterSpec, c: ServingCoefficients, most: int, skew: float, *, engine: bool = True
) -> Passes:
    """Price one pass at every number of tokens up to `most`; captured graphs run it."""
    layers = Layers(network.model, cluster, network.shape, c, skew, kinds=network.kinds)
    linear = (layers.price if engine else layers.alone)(knots(most))
    casts = sum(network.kinds.values()) * c.quantise_layer_s if network.shape.linear.casts else 0.0
    return Passes(linear.tokens, linear.seconds, layers.depth() * c.layer_s + casts + linear.head_s, linear.head_row_s)


def with_drafts(
    iteration: IterationModel,
    drafting: Drafting | None,
    model: ModelSpec,
    cluster: ClusterSpec,
    shape: Shape,
    c: ServingCoefficients,
    *,
    skew: float = 0.85,
    engine: bool = True,
) -> IterationModel:
    """An instance's iteration whose decoding sequences verify k drafted tokens a step.

    Args:
        iteration: of the instance, priced up to the tokens that it may compute.
        drafting: what drafts; None changes nothing.
        model: what is served.
        cluster: where.
        shape: of the instance.
        c: coefficients of the engine on the device.
        skew: experts that routing treats as alike, as a share of all.
        engine: whether the engine prices the passes that draft.
    """
    if drafting is None:
        return iteration
    k = drafting.tokens
    own = attention_costs(model, cluster.device, shape, c, queries=k + 1)
    n = iteration.linear.tokens.astype(np.float64)
    # Logits of drafted tokens, and states of recurrent layers that are kept for each of them.
    each = k * iteration.linear.head_row_s + 0.5 * k * own.decode_state_s
    steps, prompts = np.zeros(len(n)), np.zeros(len(n))
    pair_s, kv_s, window_s, read = 0.0, drafting.scan_s, 0.0, 0.0
    network = drafting.network
    if network is not None:
        where = drafting.draft_cluster or cluster
        one = passes_of(network, where, c, int(n[-1]), skew, engine=engine)
        kept = min(drafting.tokens_per_step, k + 1.0) if network.reads_hidden else 1.0
        verify = np.interp(n * (k + 1), n, iteration.linear.seconds) + iteration.base_s + n * iteration.per_sequence_s
        sync = 2.0 * SYNC_S if drafting.order != "serial" else 0.0
        pair = Pair(
            tokens=k,
            acceptance=drafting.acceptance,
            first_s=one.at(n * kept, n),
            pass_s=one.at(n, n),
            verify_s=verify,
            verifiers=drafting.verifiers,
            early_exit=drafting.early_exit,
            reuse=drafting.reuse,
            sync_s=sync,
        )
        steps = ORDERS.get(drafting.order).seconds(pair) - verify
        prompts = one.at(n, np.minimum(n, 1.0))
        draft = attention_costs(network.model, cluster.device, network.shape, c)
        pair_s, kv_s, window_s = draft.prompt_pair_s, kv_s + k * draft.decode_kv_s, k * draft.decode_window_s
        read = k * network.weight_bytes()
    return replace(
        iteration,
        step_tokens=k + 1,
        prefill_pair_s=iteration.prefill_pair_s + pair_s,
        decode_kv_s=iteration.decode_kv_s + (own.decode_kv_s - iteration.attention.decode_kv_s) + kv_s,
        window_kv_s=iteration.window_kv_s + (own.decode_window_s - iteration.attention.decode_window_s) + window_s,
        drafts=Drafts(iteration.linear.tokens, steps, each, prompts, kv_s, read),
    )
