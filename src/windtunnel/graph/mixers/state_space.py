"""State-space mixers: Mamba and Mamba-2."""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.specs.layers import SubBlock


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a scan: a short convolution, in- and out-projection."""

    taps: int = 4
    """Of the convolution."""
    conv_bias: bool = True
    """Whether the convolution has a bias."""
    proj_bias: bool = False
    """Whether in- and out-projection have one."""


USUAL = Around()


def mamba1(
    hidden: int,
    inner: int,
    state: int,
    dt_rank: int,
    *,
    around: Around = USUAL,
    norms: bool = False,
    heads: int = 1,
) -> SubBlock:
    """Selective state-space mixer: in-projection, short convolution, step sizes of low rank, scan, out-projection.

    Source: Gu and Dao 2023 (arXiv 2312.00752), sections 3.3 and 3.4.

    Args:
        hidden: width of the residual stream.
        inner: channels of the scan.
        state: elements of the state of a channel.
        dt_rank: rank of the step sizes.
        around: convolution and projections.
        norms: whether step sizes and both state inputs are normalised (Jamba).
        heads: independent groups of channels (Zamba).
    """
    made = dt_rank + 2 * state
    vectors = inner * (around.taps + around.conv_bias) + inner * state + 2 * inner
    vectors += (2 * inner + hidden) * around.proj_bias
    return SubBlock(
        kind="scan",
        columns=((hidden, 2 * inner), (dt_rank, inner)),
        rows=((inner // heads, heads * made), (inner, hidden)),
        vectors=vectors + made * norms,
        heads=inner,
        d_qk=state,
        d_v=1,
        scan="elementwise",
        chunk=1,
        state_elements=inner * state,
        convolved=inner,
        taps=around.taps,
    )


def mamba2(
    hidden: int,
    heads: int,
    head_dim: int,
    state: int,
    *,
    groups: int = 1,
    around: Around = USUAL,
    norm: bool = True,
    chunk: int = 256,
) -> SubBlock:
    """Mamba-2 mixer: in-projection, short convolution, chunked scan, gated norm, out-projection.

    Source: Dao and Gu 2024 (arXiv 2405.21060), section 7.

    Args:
        hidden: width of the residual stream.
        heads: heads of the scan.
        head_dim: channels of a head.
        state: elements of the state of a channel.
        groups: groups of heads that share the inputs of their state.
        around: convolution and projections.
        norm: whether the gated norm has weights.
        chunk: tokens of a chunk.
    """
    inner = heads * head_dim
    mixed = inner + 2 * groups * state
    wide = inner + mixed + heads
    return SubBlock(
        kind="scan",
        columns=((hidden, wide),),
        rows=((inner, hidden),),
        vectors=mixed * (around.taps + around.conv_bias)
        + 3 * heads
        + inner * norm
        + (wide + hidden) * around.proj_bias,
        heads=heads,
        d_qk=state,
        d_v=head_dim,
        groups=groups,
        chunk=chunk,
        state_elements=inner * state,
        convolved=mixed,
        taps=around.taps,
    )
