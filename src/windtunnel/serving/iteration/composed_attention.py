"""Attention, states and caches of models whose layers are written one by one, sub-block by sub-block.

The request loop counts cached tokens once without an end and once inside one window: layers with a smaller window than
the widest of the model are charged in proportion, which is exact for sequences that are longer than the widest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from windtunnel.cost.serving import ServingCoefficients
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.iteration.sparse_attention import SCALE_BYTES, SCORE_BYTES
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.layers import SubBlock
from windtunnel.specs.model import ModelSpec

STATE_BYTES, INPUT_BYTES = 4.0, 2.0
"""Of one element of a recurrent state, in fp32, and of an input that a short convolution keeps."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What layers keep on one device. Bytes."""

    full: float = 0.0
    """Per token, in sub-blocks that attend to everything."""
    windowed: float = 0.0
    """Per token inside the widest window, in sub-blocks with a window."""
    state: float = 0.0
    """Per sequence: recurrent states and inputs of short convolutions."""

    def __add__(self, other: Kept) -> Kept:
        return Kept(self.full + other.full, self.windowed + other.windowed, self.state + other.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCosts:
    """Attention and states of layers on one device, before ranks share sequences. Seconds."""

    pair_s: float = 0.0
    """Per query-key pair of a prompt, in sub-blocks that attend to everything."""
    picked_s: float = 0.0
    """The same in sub-blocks that attend to picked tokens, un-absorbed."""
    scored_s: float = 0.0
    """Per query-key pair of a prompt that an indexer scores."""
    windowed_token_s: float = 0.0
    """Per prompt token, in sub-blocks with a window that is full."""
    read_s: float = 0.0
    """Per cached token of a decoding sequence, in sub-blocks that attend to everything or score it."""
    window_read_s: float = 0.0
    """Per cached token inside the widest window."""
    state_s: float = 0.0
    """Per decoding sequence: states read and written."""
    reach: float = 0.0
    """Pairs that a prompt's token is charged for at most where tokens are picked."""


def sub_blocks(model: ModelSpec, kinds: Iterable[str]) -> Counter[SubBlock]:
    """Sub-blocks of layers of these kinds, and how often each stands there."""
    out: Counter[SubBlock] = Counter()
    for kind, count in Counter(kinds).items():
        for block in model.layer_of(kind):
            out[block] += count
    return out


def is_latent(model: ModelSpec) -> bool:
    """Whether attention of some layer works on latents that all heads share."""
    return model.is_mla or any(b.kv_rank for layer in model.layers for b in layer.blocks)


def _heads_share(block: SubBlock, shape: Shape) -> float:
    """Share of a sub-block's key/value heads that one device has; at least one head."""
    return max(block.kv_heads / shape.tp, 1.0) / max(block.kv_heads, 1)


def read_bytes(block: SubBlock, shape: Shape) -> float:
    """Bytes of one token that attention of a sub-block reads on one device while it decodes, an indexer's left out."""
    if block.kv_rank:
        return (block.kv_rank + block.rope_dim) * shape.cache_bytes
    elements = block.cached_elements or block.kv_heads * (block.d_qk + block.d_v)
    return elements * _heads_share(block, shape) * shape.cache_bytes


def _state_bytes(block: SubBlock, shape: Shape) -> float:
    """Bytes of states of one sequence on one device."""
    return (STATE_BYTES * block.state_elements + INPUT_BYTES * block.kept_inputs) / shape.tp


def kept(model: ModelSpec, shape: Shape, kinds: Iterable[str]) -> Kept:
    """What layers of these kinds keep on one device.

    Keys that a layer reads from an earlier one are kept there alone; an indexer keeps a key in 8 bits, with its scale,
    of every token. Where keys stand for several tokens each, those and an indexer's are as many fewer.
    """
    out, widest = Kept(), model.attended_window
    for block, count in sub_blocks(model, kinds).items():
        own = Kept(state=_state_bytes(block, shape))
        if block.attends and block.cached_elements:
            size = read_bytes(block, shape)
            keys = block.index_dim + SCALE_BYTES if block.index_heads else 0.0
            windowed = block.window and not block.picked
            share = 1.0 / block.compression if block.compression else 1.0
            if windowed:
                own += Kept(0.0, size * block.window / widest)
            if block.compression or not windowed:
                own += Kept(share * (size + keys))
        out += Kept(count * own.full, count * own.windowed, count * own.state)
    return out


def layer_costs(
    model: ModelSpec, device: DeviceSpec, shape: Shape, c: ServingCoefficients, kinds: Iterable[str], queries: int = 1
) -> LayerCosts:
    """Seconds of attention and states of layers of these kinds.

    Args:
        model: what is served.
        device: of the instance.
        shape: axes and formats of the instance.
        c: coefficients of the engine.
        kinds: letters of the layers.
        queries: tokens of a decoding sequence that are computed together.
    """
    totals = dict.fromkeys(("pair", "picked", "scored", "token", "read", "window", "state"), 0.0)
    reach, widest = 0.0, float(model.attended_window)
    for block, count in sub_blocks(model, kinds).items():
        totals["state"] += count * 2.0 * _state_bytes(block, shape) / (c.memory_fraction * device.memory_bytes_per_s)
        if not block.attends:
            continue
        pair, read = _pair_and_read(block, device, shape, c, queries)
        if block.picked:
            absorbed = _absorbed_flop(block, shape) / (c.prefill_attention_fraction * device.peak("bf16"))
            totals["picked"] += count * pair
            reach = block.window * absorbed / pair
            if block.index_heads:
                scored, scored_read = _scores(block, device, c, queries)
                totals["scored"] += count * scored
                totals["read"] += count * scored_read
        elif block.window:
            totals["token"] += count * pair * block.window
            if block.compression:
                further = _scores(block, device, c, queries) if block.index_heads else (pair, read)
                totals["scored" if block.index_heads else "pair"] += count * further[0] / block.compression
                totals["read"] += count * further[1] / block.compression
        else:
            totals["pair"] += count * pair
            totals["read"] += count * read
            continue
        totals["window"] += count * read * block.window / widest
    return LayerCosts(
        pair_s=totals["pair"],
        picked_s=totals["picked"],
        scored_s=totals["scored"],
        windowed_token_s=totals["token"],
        read_s=totals["read"],
        window_read_s=totals["window"],
        state_s=totals["state"],
        reach=reach,
    )


def _absorbed_flop(block: SubBlock, shape: Shape) -> float:
    """FLOPs of one query with one cached token on one device, all heads on the latent (DeepSeek-V2, section 2.1)."""
    heads = block.heads / shape.tp
    if block.kv_rank:
        return 2.0 * heads * (2.0 * block.kv_rank + block.rope_dim)
    return 2.0 * heads * (block.d_qk + block.d_v)


def _pair_and_read(
    block: SubBlock, device: DeviceSpec, shape: Shape, c: ServingCoefficients, queries: int
) -> tuple[float, float]:
    """Seconds of one query-key pair of a prompt, and of one cached token of a decoding sequence, in one layer."""
    heads = block.heads / shape.tp
    flop_rate = c.prefill_attention_fraction * device.peak("bf16")
    pair = 2.0 * heads * (block.d_qk + block.d_v) / flop_rate
    read = read_bytes(block, shape) / (c.decode_kv_fraction * device.memory_bytes_per_s)
    if block.kv_rank:
        return pair, max(read, queries * _absorbed_flop(block, shape) / flop_rate)
    if shape.vector_attention:
        rate = c.vector_attention_fraction * device.peak("fp32")
        return pair, max(read, queries * 2.0 * heads * (block.d_qk + block.d_v) / rate)
    return pair, max(read, queries * pair) if queries > 1 else read


def _scores(block: SubBlock, device: DeviceSpec, c: ServingCoefficients, queries: int) -> tuple[float, float]:
    """Seconds of one score of a prompt's pair, and of scoring one cached token, in 8 bits where the device has them."""
    wide = "fp8" if "fp8" in device.peak_flop_per_s else "bf16"
    score = 2.0 * block.index_heads * block.index_dim / (c.prefill_attention_fraction * device.peak(wide))
    passes = queries * SCORE_BYTES / (c.memory_fraction * device.memory_bytes_per_s)
    keys = (block.index_dim + SCALE_BYTES) / (c.decode_kv_fraction * device.memory_bytes_per_s)
    return score, max(keys, queries * score) + passes
