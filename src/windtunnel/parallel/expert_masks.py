"""The router's choices as masks: a chain of operators over tokens, experts and the places of experts.

Each expert has places for as many tokens as routed rows come to it on average (capacity factor 1). Masks over tokens
and experts are 64-bit integers; combining weights over tokens, experts and places are fp32, then cast to the precision
of activations, and so is the mask of those that are not zero. Positions in an expert are a sum down the column of its
tokens, which one thread adds up row by row.

Source: DeepSpeed `deepspeed/moe/sharded_moe.py` of 2022, `TopKGate.forward` and `top1gating` with random token
selection; reads and writes are counted operator by operator.
"""

from __future__ import annotations

from windtunnel.graph.operators import Kind, Operator

WEIGHT_BYTES = (4.0 + 5.0 + 3.0 + 6.0, 6.0 + 4.0)
"""Bytes a token and place, forward and backward: weights written, compared with zero, mask and weights cast; backward
the cast and one sum."""
CHOICE_BYTES = (200.0, 48.0)
"""Bytes a token and expert, forward and backward: softmax 8, largest 4, one-hot 16, counts and means 32, random order
28, the first of them 36, positions 56, weights 20; backward softmax, means and products."""
POSITION_BYTES = 20.0
"""Bytes a token and place in one expert: one-hot 64-bit, then fp32."""
INPUT_BYTES = (6.0, 12.0)
"""Bytes a token and feature, forward and backward: the cast to fp32; backward back to 16 bits, and added."""
KERNELS = (40.0, 12.0)


def masked_gate(tokens: float, hidden: float, places: float, experts: float) -> Operator:
    """What follows the router's product on one rank.

    Args:
        tokens: of this rank.
        hidden: width.
        places: of all experts.
        experts: of all ranks.
    """
    forward, backward = (
        weight * tokens * places + choice * tokens * experts + cast * tokens * hidden
        for weight, choice, cast in zip(WEIGHT_BYTES, CHOICE_BYTES, INPUT_BYTES, strict=True)
    )
    forward += POSITION_BYTES * tokens * places / experts
    return Operator(
        name="routing",
        module="router",
        kind=Kind.POINTWISE,
        rule="full",
        forward_bytes=forward,
        backward_bytes=backward,
        fp32_forward_bytes=forward,
        fp32_backward_bytes=backward,
        forward_kernels=KERNELS[0],
        backward_kernels=KERNELS[1],
        dependent_loads=tokens,
    )
