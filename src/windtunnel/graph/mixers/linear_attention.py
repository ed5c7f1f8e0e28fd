"""Linear attention: gated delta rule with a decay for each channel, and lightning attention."""

from __future__ import annotations

from windtunnel.specs.layers import SubBlock


def delta_attention(
    hidden: int, heads: int, head_dim: int, *, conv: int = 4, decay_rank: int = 0, gate_rank: int = 0
) -> SubBlock:
    """Kimi delta attention: short convolutions, a decay for each channel, delta rule, gated norm.

    Source: Kimi Linear (arXiv 2510.26692), section 3.

    Args:
        hidden: width of the residual stream.
        heads: heads.
        head_dim: elements of a head's queries, keys and values.
        conv: taps of the convolutions.
        decay_rank: rank of the decays' projection; 0 means full.
        gate_rank: rank of the output gate's projection; 0 means full.
    """
    inner = heads * head_dim
    columns = [(hidden, 3 * inner + heads)]
    replicated = []
    for rank in (decay_rank, gate_rank):
        columns.append((rank or hidden, inner))
        if rank:
            replicated.append((hidden, rank))
    return SubBlock(
        kind="scan",
        columns=tuple(columns),
        rows=((inner, hidden),),
        replicated=tuple(replicated),
        vectors=3 * inner * conv + heads + inner + head_dim,
        heads=heads,
        d_qk=head_dim,
        d_v=head_dim,
        scan="delta",
        state_elements=inner * head_dim,
        convolved=3 * inner,
        taps=conv,
    )


def lightning_attention(hidden: int, heads: int, head_dim: int) -> SubBlock:
    """Linear attention under a fixed decay with a gated, normalised output (MiniMax).

    Source: Qin et al. 2024 (arXiv 2401.04658).

    Args:
        hidden: width of the residual stream.
        heads: heads.
        head_dim: elements of a head's queries, keys and values.
    """
    inner = heads * head_dim
    return SubBlock(
        kind="scan",
        columns=((hidden, 4 * inner),),
        rows=((inner, hidden),),
        vectors=inner,
        heads=heads,
        d_qk=head_dim,
        d_v=head_dim,
        scan="decayed",
        state_elements=inner * head_dim,
    )
