"""What one device computes and reads in an iteration, apart from attention: a table over its computed tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.graph import Kind, Operator
from windtunnel.program.segment import COMPUTE
from windtunnel.serving.iteration import sparse_weights
from windtunnel.serving.iteration.iteration_model import IterationModel
from windtunnel.serving.iteration.linear_layers import Layers


@dataclass(frozen=True, slots=True)
class WorkTable:
    """Work of one device in an iteration by its computed tokens, attention left out. Arrays have shape (G,)."""

    tokens: Floats
    kernel_s: Floats
    """Seconds in kernels over weights and activations."""
    matrix_s: Floats
    """Seconds that the matrix products would take at the peak of their number format."""
    hbm_bytes: Floats
    """Bytes read from and written to device memory."""
    row_matrix_s: float
    """Seconds that one row of logits would take at the peak of its number format."""

    def at(self, tokens: float) -> tuple[float, float, float]:
        """Return kernel seconds, matrix seconds at peak, and bytes at `tokens`, interpolated."""
        columns = (self.kernel_s, self.matrix_s, self.hbm_bytes)
        seconds, matrix, moved = (float(np.interp(tokens, self.tokens, x)) for x in columns)
        return seconds, matrix, moved


def work_table(layers: Layers, iteration: IterationModel) -> WorkTable:
    """Build the table of one lane at the knots of its iteration model.

    A pipeline of pp stages is pp lanes of the request loop, whose iterations fill the stages in turn: a device computes
    its stage for each lane, which is as much work as all stages for one lane.

    Args:
        layers: layers of the instance; those are priced under the coefficients of `iteration`.
        iteration: iteration model whose knots the table takes.
    """
    layers = layers.under(iteration.coefficients)
    model, shape = layers.model, layers.shape
    tokens = iteration.linear.tokens.astype(np.float64)
    kernel_s, hbm_bytes = _kernels(layers, iteration)
    matrix_s = np.zeros(len(tokens))
    kinds = model.layer_kinds()
    for kind, operators in layers.local.items():
        depth = float(sum(k == kind for k in kinds))
        for op in operators:
            if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
                matrix_s += _matrix_s(layers, op, tokens, depth)
    head = sparse_weights.head_weights(model, shape)
    kernel_s += iteration.linear.head_s
    hbm_bytes += shape.ends.bytes_per_weight * head
    row_s = 2.0 * head / shape.dp / layers.device.peak(shape.ends.compute)
    return WorkTable(tokens, kernel_s, matrix_s, hbm_bytes, row_s)


def _kernels(layers: Layers, iteration: IterationModel) -> tuple[Floats, Floats]:
    """Return (G,) seconds and (G,) bytes of the computation kernels of all layers."""
    knots = iteration.linear.tokens
    kinds = layers.model.layer_kinds()
    segments = layers.segments(knots)
    seconds, moved = np.zeros(len(knots)), np.zeros(len(knots))
    for j, kind in enumerate(layers.local):
        depth = float(sum(k == kind for k in kinds))
        for i, segment in enumerate(segments[j * len(knots) : (j + 1) * len(knots)]):
            own = [x for x in segment.launches if x.stream == COMPUTE]
            seconds[i] += depth * sum(x.alone_s for x in own)
            moved[i] += depth * sum(x.hbm_bytes for x in own)
    return seconds, moved


def _matrix_s(layers: Layers, op: Operator, tokens: Floats, depth: float) -> Floats:
    """Return (G,) seconds at peak of one product in `depth` layers."""
    shape = layers.shape
    grouped = op.kind == Kind.GROUPED_GEMM
    compute = shape.format_of(op).compute
    rows = op.m * tokens / shape.dp / (op.groups if grouped else 1.0)
    flop = depth * 2.0 * op.m * tokens / shape.dp * op.n * op.k
    return np.asarray(sparse_weights.share(shape, layers.model, op, rows) * flop / layers.device.peak(compute))
