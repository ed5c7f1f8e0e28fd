"""Iterations on a share of a device's SMs: what they take, how many SMs they hold, how much of the memory's rate.

A launch that needs more SMs than there are takes longer in that proportion; one that needs fewer does not notice.
Kernels that wait for memory need `MEMORY_SM_SHARE` of the SMs, so a small share slows them too. A launch holds what it
needs, at most the share; gaps between launches and collectives hold none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.graph import Kind
from windtunnel.program.segment import COMPUTE
from windtunnel.serving.iteration.co_scheduled_layers import MEMORY_SM_SHARE, memory_rate
from windtunnel.serving.iteration.composed_attention import is_latent
from windtunnel.serving.iteration.iteration_model import IterationModel
from windtunnel.serving.iteration.linear_layers import Layers


@dataclass(frozen=True, slots=True, kw_only=True)
class SmShare:
    """One instance's iterations on a share of the SMs."""

    iteration: IterationModel
    tokens: Floats
    moved: Floats
    """(G,) bytes of weights and rows that a device moves in an iteration."""
    read_rate: float
    """Bytes per second of decode attention at its own speed."""
    memory_rate: float
    """Bytes per second of all kernels together, at most."""
    held: Floats
    """(G,) seconds of all SMs that launches other than attention hold in an iteration."""
    prompt_share: float
    """Share of the SMs that prompt attention holds."""
    decode_share: float
    """Share of the SMs that decode attention holds."""

    def load(self, tokens: float, seconds: float, decode_s: float) -> float:
        """Share of the memory's rate that an iteration asks for."""
        moved = float(np.interp(tokens, self.tokens, self.moved)) + decode_s * self.read_rate
        return min(moved / max(seconds, 1e-12) / self.memory_rate, 1.0)

    def sms(self, tokens: float, seconds: float, prompt_s: float, decode_s: float) -> float:
        """Share of the SMs that an iteration holds, over its time.

        Args:
            tokens: tokens computed in the iteration.
            seconds: seconds of the iteration.
            prompt_s: seconds of its prompt attention.
            decode_s: seconds of its decode attention.
        """
        attention = prompt_s * self.prompt_share + decode_s * self.decode_share
        return min((float(np.interp(tokens, self.tokens, self.held)) + attention) / max(seconds, 1e-12), 1.0)


def needed(layers: Layers, tag: str, seconds: Floats, memory_s: Floats) -> Floats:
    """Share of SMs that keeps a kernel at its own speed, as `co_scheduled_layers.View` has it."""
    if tag != "gemm":
        return np.full_like(seconds, MEMORY_SM_SHARE if tag == "memory_bound" else 1.0)
    power = layers.c.roofline_power
    compute_s = np.maximum(seconds**power - np.minimum(memory_s, seconds) ** power, 0.0) ** (1.0 / power)
    return np.maximum(compute_s, MEMORY_SM_SHARE * np.minimum(memory_s, seconds)) / np.maximum(seconds, 1e-300)


def on_sm_share(layers: Layers, iteration: IterationModel, share: float) -> SmShare:
    """The iteration model of a share of the SMs, above 0 and at most 1."""
    n = iteration.linear.tokens.astype(np.float64)
    more, moved, held = np.zeros(len(n)), np.zeros(len(n)), np.zeros(len(n))
    for kind, depth in Counter(layers.model.layer_kinds()).items():
        for op in layers.local[kind]:
            if op.kind == Kind.ATTENTION:
                continue
            for _, tag, stream, seconds, size, memory_s in layers.launches_of(op, n):
                moved += depth * size
                if stream == COMPUTE:
                    need = needed(layers, tag, seconds, memory_s)
                    more += depth * seconds * (np.maximum(need / share, 1.0) - 1.0)
                    held += depth * seconds * need
    decode = 1.0 if is_latent(layers.model) else MEMORY_SM_SHARE
    slow = max(decode / share, 1.0)
    linear = replace(iteration.linear, seconds=iteration.linear.seconds + more, parts={})
    made = replace(
        iteration,
        linear=linear,
        prefill_pair_s=iteration.prefill_pair_s / share,
        prefill_token_s=iteration.prefill_token_s / share,
        decode_kv_s=iteration.decode_kv_s * slow,
        window_kv_s=iteration.window_kv_s * slow,
    )
    return SmShare(
        iteration=made,
        tokens=n,
        moved=moved,
        read_rate=layers.c.decode_kv_fraction * layers.device.memory_bytes_per_s / slow,
        memory_rate=memory_rate(layers),
        held=held,
        prompt_share=share,
        decode_share=min(decode, share),
    )
