"""Gated recurrences and short convolutions: RG-LRU, RWKV-4, mLSTM, LFM2's convolution."""

from __future__ import annotations

from windtunnel.specs.layers import SubBlock


def rg_lru(hidden: int, width: int, heads: int, *, conv: int = 4) -> SubBlock:
    """Real-gated linear recurrent unit next to a gate: two projections, convolution, recurrence, output.

    Source: De et al. 2024 (arXiv 2402.19427), section 2.4.

    Args:
        hidden: width of the residual stream.
        width: channels of the recurrence.
        heads: blocks of the block-diagonal gates.
        conv: taps of the convolution.
    """
    return SubBlock(
        kind="scan",
        columns=((hidden, 2 * width), (width // heads, 2 * width)),
        rows=((width, hidden),),
        vectors=2 * width + hidden + width * (conv + 1) + 3 * width,
        heads=width,
        d_qk=1,
        d_v=1,
        scan="elementwise",
        chunk=1,
        state_elements=width,
        convolved=width,
        taps=conv,
    )


def rwkv_time_mix(hidden: int, inner: int) -> SubBlock:
    """Time mixing of RWKV-4: receptance, key and value projections, weighted running sums, output.

    Source: Peng et al. 2023 (arXiv 2305.13048), section 3.1.
    """
    return SubBlock(
        kind="scan",
        columns=((hidden, 3 * inner),),
        rows=((inner, hidden),),
        vectors=2 * inner + 3 * hidden,
        heads=inner,
        d_qk=1,
        d_v=1,
        scan="elementwise",
        chunk=1,
        state_elements=4 * inner,
    )


def rwkv_channel_mix(hidden: int, width: int) -> SubBlock:
    """Channel mixing of RWKV-4: squared ReLU between two projections, gated by the receptance."""
    return SubBlock(
        kind="mlp",
        columns=((hidden, width), (hidden, hidden)),
        rows=((width, hidden),),
        vectors=2 * hidden,
        gated=False,
        state_elements=hidden,
    )


def mlstm(hidden: int, heads: int, key_width: int, value_width: int, *, bias: bool = False) -> SubBlock:
    """Matrix LSTM: queries, keys, values, output gate, scalar input and forget gates, norm by head, output.

    Source: Beck et al. 2025 (arXiv 2503.13427), section 3.

    Args:
        hidden: width of the residual stream.
        heads: heads.
        key_width: queries or keys of all heads.
        value_width: values of all heads.
        bias: whether projections have biases.
    """
    made = 2 * key_width + 2 * value_width
    return SubBlock(
        kind="scan",
        columns=((hidden, made + 2 * heads),),
        rows=((value_width, hidden),),
        vectors=2 * heads + value_width + (made + hidden) * bias,
        heads=heads,
        d_qk=key_width // heads,
        d_v=value_width // heads,
        scan="decayed",
        state_elements=key_width * value_width // heads,
    )


def short_convolution(hidden: int, taps: int, *, bias: bool = False) -> SubBlock:
    """Gated short convolution: one projection to input and two gates, convolution, output (LFM2)."""
    return SubBlock(
        kind="convolution",
        columns=((hidden, 3 * hidden),),
        rows=((hidden, hidden),),
        vectors=hidden * taps + 5 * hidden * bias,
        heads=hidden,
        d_qk=taps,
        d_v=1,
        chunk=1,
        convolved=hidden,
        taps=taps,
    )
