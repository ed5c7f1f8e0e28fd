"""Multi-token prediction: the module that predicts one token further.

Source: DeepSeek-V3 (arXiv 2412.19437), section 2.2: both inputs are normalised, joined by a projection from twice the
width and sent through one more layer; embedding and output head are those of the trunk.
"""

from __future__ import annotations

from dataclasses import replace

from windtunnel.graph.operators import Batch, Block, Style, Tensor, linear, pointwise
from windtunnel.specs.model import ModelSpec

PREDICTED = "mtp"
"""Name of the block. It stands behind the last layer, followed by another run of the head."""


def predicted(model: ModelSpec, batch: Batch, style: Style, layer: Block) -> Block:
    """Two norms, the joining projection and a layer of the trunk's last kind."""
    t, h = batch.tokens, float(model.hidden_size)
    norm = 2.0 if model.norm == "layernorm" else 1.0
    operators = (
        pointwise(
            "mtp_norm",
            "norm",
            "sequence",
            (2 * style.norm[0] * h * t * 2, 2 * style.norm[1] * h * t * 2),
            (3, 4),
            params=3 * h * norm,
        ),
        linear("mtp_join", "qkv", "column", m=t, n=h, k=2 * h, params=2 * h * h),
    )
    tensors = (
        Tensor("mtp_inputs", 2 * h * t, "sequence", producer="", consumers=("norm",)),
        Tensor("mtp_norm_out", 2 * h * t, "sequence", producer="norm", consumers=("qkv",)),
    )
    params = layer.params + sum(op.params for op in operators)
    return replace(layer, operators=operators + layer.operators, tensors=tensors + layer.tensors, params=params)
