"""Cost of a problem in FLOP and in bytes read from the KV cache, from the model's own graph and the calls of a run.

Kinetics adds both up as equivalent FLOP: FLOP, and bytes times the FLOP that the device does while it reads one.
Weights are left out, because a large batch reads them once for all; dollars and seconds of the run have them.

Source: Sadhukhan et al. 2025, Kinetics (arXiv 2506.05333), section 3. Each sequence reads its whole context here, as
engines without cascade attention do; the paper shares the prompt's part among the samples of a problem. Sliding windows
are counted as whole contexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.graph import Batch, Kind, build, forward_flop
from windtunnel.serving.deployment import Deployment
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.specs.model import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of all calls of a run."""

    flop: float
    read_bytes: float
    """Of keys and values, by decode steps."""
    eflop: float
    """FLOP, and the bytes in FLOP that the device does in their time."""


def cost_of(deployments: Sequence[Deployment], requests: Requests) -> Cost:
    """Cost of what was computed: prompts without what the cache had, and generated tokens, of cancelled calls too.

    Args:
        deployments: by the number of their group of instances.
        requests: after their run.
    """
    flop = read = equal = 0.0
    begun = np.isfinite(requests.scheduled_s)
    for group, d in enumerate(deployments):
        own = begun & (requests.pool == group)
        linear, attention = token_flop(d.model)
        prompt, found, made = (
            np.asarray(column[own], np.float64)
            for column in (requests.input_tokens, requests.cached_tokens, requests.generated_tokens)
        )
        steps: Floats = made * prompt + made * made / 2.0
        pairs = (prompt * prompt - found * found) / 2.0 + steps
        own_flop = float(linear * (prompt - found + made).sum() + attention * pairs.sum())
        plan, device = d.pool.plan, d.cluster.device
        own_read = float(d.instance.capacity.bytes_per_token * plan.tp * plan.pp * steps.sum())
        flop, read = flop + own_flop, read + own_read
        equal += own_flop + own_read * device.peak("bf16") / device.memory_bytes_per_s
    return Cost(flop=flop, read_bytes=read, eflop=equal)


@lru_cache(maxsize=64)
def token_flop(model: ModelSpec) -> tuple[float, float]:
    """FLOP of a token without attention's products, and of one query against one cached token, from the graph."""
    batch = Batch(tokens=1.0, sequences=1.0, seq_len=1.0, pairs=1.0, full_pairs=1.0, logits_rows=1.0, training=False)
    graph = build(model, batch)
    linear = attention = 0.0
    for block in (*(graph.blocks[kind] for kind in graph.depth), graph.head):
        for op in block.operators:
            if op.kind == Kind.ATTENTION:
                attention += forward_flop(op)
            elif op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
                linear += forward_flop(op)
    return linear, attention
