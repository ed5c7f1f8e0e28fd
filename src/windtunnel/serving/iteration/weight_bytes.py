"""Bytes of weights on one device of an instance, stage by stage, in the formats that they are kept in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from windtunnel import graph
from windtunnel.graph import STYLES, Batch, Kind, Operator
from windtunnel.parallel.tensor import split_operator
from windtunnel.serving.iteration import sparse_attention, sparse_weights
from windtunnel.serving.iteration.instance_shape import SIXTEEN, Shape
from windtunnel.specs.model import ModelSpec


@lru_cache(maxsize=1024)
def local_blocks(model: ModelSpec, shape: Shape, *, written_out: bool = False) -> Mapping[str, Sequence[Operator]]:
    """Operators of one layer of each kind, as one device has them for each token that it computes.

    A resolved instance asks for them several times, and a search for each of its batch limits. `written_out`:
    element-wise work is not fused (`ServingCoefficients.written_out`).
    """
    style = STYLES["eager"] if written_out else None
    whole = graph.build(
        model,
        Batch(tokens=1.0, sequences=1.0, seq_len=1.0, pairs=0.0, full_pairs=0.0, logits_rows=1.0, training=False),
        style=style,
    )
    own = replace(shape, cp=1)  # who computes which tokens of a prompt is the iteration's business
    extra = sparse_attention.operators(model)
    return {
        kind: [split_operator(op, own) for op in (*extra, *block.operators)] for kind, block in whole.blocks.items()
    }


def block_bytes(operators: Sequence[Operator], shape: Shape, model: ModelSpec) -> float:
    """Weights of one layer; norms, routers and biases of other classes stay in 16 bits."""
    inner = model.moe_intermediate_size / shape.etp if model.num_experts else 0.0
    expert = shape.expert_layout.bytes_per_weight(shape.expert, inner, float(model.hidden_size))
    total = 0.0
    for op in operators:
        if op.kind != Kind.GROUPED_GEMM:
            total += op.params * shape.format_of(op).bytes_per_weight
            continue
        copies = 1.0 + shape.experts.redundant / (op.groups * shape.ep) if shape.experts else 1.0
        if shape.storage:
            copies *= shape.storage.cached
        biases = max(op.params - op.groups * op.n * op.k, 0.0) if expert < SIXTEEN.bytes_per_weight else 0.0
        total += copies * ((op.params - biases) * expert + biases * shape.expert_layout.bias_bytes)
    return total


def layers_of_stages(model: ModelSpec, pp: int) -> tuple[str, ...]:
    """Block kinds of each stage. Even shares; what is left over goes to the stages before the last (vLLM's rule).

    Source: vLLM `distributed/utils.py`, `get_pp_indices`: the last stage has the head and gets none of the rest.
    """
    kinds = model.layer_kinds()
    share, rest = divmod(len(kinds), pp)
    counts = [share] * pp
    for i in range(2, rest + 2):
        counts[-i] += 1
    starts = [sum(counts[:i]) for i in range(pp)]
    return tuple(kinds[a : a + n] for a, n in zip(starts, counts, strict=True))


def stage_bytes(model: ModelSpec, shape: Shape, blocks: Mapping[str, Sequence[Operator]]) -> tuple[float, ...]:
    """Bytes on one device of each stage: its layers, the embedding on the first, the head on the last."""
    layer = {kind: block_bytes(operators, shape, model) for kind, operators in blocks.items()}
    front, head, rest = (size / shape.tp * shape.ends.bytes_per_weight for size in _ends(model))
    out = []
    for i, kinds in enumerate(layers_of_stages(model, shape.pp)):
        total = sum(layer[kind] * count for kind, count in Counter(kinds).items())
        first, last = i == 0, i == shape.pp - 1
        total += sparse_weights.predictor_weights(model, shape) * shape.ends.bytes_per_weight if last else 0.0
        ends = front if first else 0.0
        if last:
            ends += rest + (0.0 if first and model.tie_word_embeddings else head)
        out.append(total + ends)
    return tuple(out)


def _ends(model: ModelSpec) -> tuple[float, float, float]:
    """Weights in front of the layers, of the head, and of what else is behind the layers.

    Layers written one by one may have other tables than that of the tokens; towers stand in front of any.
    """
    head = float(model.vocab_size) * (model.output_size or model.hidden_size)
    front = float(model.vocab_size) * model.hidden_size if model.input_parameters is None else model.input_parameters
    behind = 0.0 if model.output_parameters is None else float(model.output_parameters)
    rest = behind if model.tie_word_embeddings else behind - head
    return front + model.tower_parameters, head, max(rest, 0.0)
