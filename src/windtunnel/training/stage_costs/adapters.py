"""Low-rank adapters on a model: what a layer then keeps, and the share of all weights that is trained."""

from __future__ import annotations

from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.cost.framework_defaults import behaviour as defaults_of
from windtunnel.cost.quantised_base import BASE_BYTES, HELD
from windtunnel.graph import Block, Kind, ModelGraph
from windtunnel.graph.adapters import adapter_params, with_adapters
from windtunnel.specs.workload import LoraSpec, TrainingSpec
from windtunnel.stacks.defaults import Setting


def lora_of(training: TrainingSpec) -> LoraSpec | None:
    """The adapters of a step; None where all weights are trained.

    Frozen weights that nothing is stated of are held in the training precision where the framework does so.
    """
    if training.phase != "lora":
        return None
    adapters = training.lora or LoraSpec()
    if training.precision not in HELD or "quantized_base" in adapters.model_fields_set:
        return adapters
    setting = Setting(precision=training.precision, phase=training.phase)
    if not defaults_of(training.framework, training.framework_version, setting).frozen_in_format:
        return adapters
    return adapters.model_copy(update={"quantized_base": training.precision})


def adapter_bytes(behaviour: Behaviour) -> float:
    """Bytes of one weight of an adapter: as the framework keeps them, else as activations."""
    return behaviour.adapter_bytes or behaviour.element_bytes


def matrix_share(g: ModelGraph) -> float:
    """Weights of the layers' matrices over all weights: the share that a quantised base keeps in few bits."""
    layers = [g.blocks[kind] for kind in g.depth]
    matrices = sum(op.params for b in layers for op in b.operators if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM))
    return matrices / (g.embedding.params + g.head.params + sum(b.params for b in layers))


def stored_layer_bytes(training: TrainingSpec, element_bytes: float) -> float:
    """Bytes of one weight of a layer as it is stored, sharded and sent: few bits for a quantised base."""
    lora = lora_of(training)
    return element_bytes if lora is None or lora.base_format is None else BASE_BYTES[lora.base_format]


def stored_share(training: TrainingSpec, g: ModelGraph) -> float:
    """Bytes of all stored weights over their bytes in the model's own format."""
    return 1.0 - matrix_share(g) * (1.0 - stored_layer_bytes(training, g.element_bytes) / g.element_bytes)


def frozen_weight_bytes(g: ModelGraph, training: TrainingSpec, behaviour: Behaviour) -> float:
    """Bytes for each parameter of the weights that nothing trains: 0, or the base weights under adapters."""
    lora = lora_of(training)
    if lora is None:
        return 0.0
    element = behaviour.element_bytes
    if lora.base_format is None:
        return element
    return element - (element - BASE_BYTES[lora.base_format]) * matrix_share(g)


def frozen_share(g: ModelGraph, training: TrainingSpec, behaviour: Behaviour, trainable_share: float) -> float:
    """Share of the bytes of all weights that nothing trains: 0, or nearly all of them under adapters."""
    frozen = frozen_weight_bytes(g, training, behaviour)
    return frozen / (frozen + adapter_bytes(behaviour) * trainable_share)


def adapted_graph(g: ModelGraph, lora: LoraSpec, behaviour: Behaviour) -> dict[str, Block]:
    """Block kind → block with adapters next to its products."""
    cast = adapter_bytes(behaviour) > behaviour.element_bytes
    rank = lora.rank if lora.rotation_block is None else 0
    return {
        kind: with_adapters(block, rank, lora.targets, dropout=lora.dropout > 0.0, cast=cast, dora=lora.dora)
        for kind, block in g.blocks.items()
    }


def is_trained(block: Block, training: TrainingSpec) -> bool:
    """Whether the weights of a block are trained: all without adapters, with them the ends that are named."""
    lora = lora_of(training)
    return lora is None or block.kind in lora.trained


def trainable_share(training: TrainingSpec, g: ModelGraph) -> float:
    """Trained over all parameters: 1, or those of adapters and of the ends that are trained whole next to them.

    Source: Hu et al. 2021 (arXiv 2106.09685), section 4.
    """
    lora = lora_of(training)
    if lora is None:
        return 1.0
    total = g.embedding.params + g.head.params + sum(g.blocks[kind].params for kind in g.depth)
    adapters = sum(
        adapter_params(op, lora.rank, dora=lora.dora, rotation=lora.rotation_block)
        for kind in g.depth
        for op in g.blocks[kind].operators
        if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM) and op.adapters
    )
    head = next((op.n * op.k for op in g.head.operators if op.name == "lm_head"), 0.0)
    ends = {"embedding": g.embedding.params, "head": g.head.params or head}
    return (adapters + sum(ends[end] for end in lora.trained)) / total
