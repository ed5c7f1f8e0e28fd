"""Feed-forward networks: dense, gated or not, and mixtures of experts."""

from __future__ import annotations

from windtunnel.specs.layers import SubBlock


def mlp(hidden: int, width: int, *, gated: bool = True, bias: bool = False) -> SubBlock:
    """Up projection (with its gate), activation, down projection."""
    up = width * (2 if gated else 1)
    return SubBlock(
        kind="mlp", columns=((hidden, up),), rows=((width, hidden),), vectors=(up + hidden) * bias, gated=gated
    )


def mixture(
    hidden: int,
    experts: int,
    per_token: int,
    width: int,
    *,
    shared: int = 0,
    gated: bool = True,
    vectors: int = 0,
    latent: int = 0,
) -> SubBlock:
    """Router, routed experts and shared experts.

    Args:
        hidden: width of the residual stream.
        experts: routed experts.
        per_token: experts a token is sent to.
        width: width of one routed expert.
        shared: total width of the shared experts.
        gated: whether experts are gated.
        vectors: biases of the router and of outputs.
        latent: width that tokens are projected to before routed experts, and back from; 0: experts read `hidden`.
    """
    up = 2 if gated else 1
    inner = latent or hidden
    return SubBlock(
        kind="mixture",
        columns=((hidden, up * shared),) if shared else (),
        rows=((shared, hidden),) if shared else (),
        replicated=((hidden, experts), *(((hidden, latent), (latent, hidden)) if latent else ())),
        vectors=vectors,
        experts=experts,
        experts_per_token=per_token,
        expert_columns=(inner, up * width),
        expert_rows=(width, inner),
        gated=gated,
    )
