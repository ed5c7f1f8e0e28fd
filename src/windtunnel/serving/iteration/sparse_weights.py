"""What is read and multiplied of weights whose inputs or outputs are zero for a token."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.graph import Operator
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.specs.model import ModelSpec

_UP, _DOWN = ("fc1", "expert_fc1", "shared_fc1"), ("fc2", "expert_fc2", "shared_fc2")


def share(shape: Shape, model: ModelSpec, op: Operator, rows: Floats) -> Floats | float:
    """Share of a product's weights that are read and multiplied where `rows` tokens meet the same weights.

    The gate is computed whole and says which neurons are above zero; up and down products take these alone. Tokens
    choose them independently, and a row that one of them needs is taken for all: `1 − (1 − a)^rows`.

    Source: Song et al. 2025, arXiv 2507.20984, sparse inference. Valid for: ReLU and its gated form; without a gate the
    first product is whole.
    """
    sparse = shape.sparse
    if sparse is None or sparse.neurons == 1.0 or op.name not in _UP + _DOWN:
        return 1.0
    needed = 1.0 - (1.0 - sparse.neurons) ** np.maximum(rows, 1.0)
    if op.name in _DOWN:
        return needed
    return 0.5 + 0.5 * needed if model.gated_mlp else 1.0


def predictor_weights(model: ModelSpec, shape: Shape) -> float:
    """Weights on one device of the two products that choose rows of the head."""
    rank = shape.sparse.predictor_rank if shape.sparse else 0
    return rank * (model.hidden_size + float(model.vocab_size) / shape.tp) if rank else 0.0


def head_weights(model: ModelSpec, shape: Shape) -> float:
    """Weights of the head that one token reads on one device, predictor included."""
    whole = float(model.vocab_size) * (model.output_size or model.hidden_size) / shape.tp
    return whole if shape.sparse is None else whole * shape.sparse.head + predictor_weights(model, shape)
