"""What is trained: sequence length, batch, precision, software."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from windtunnel.specs.base import Count, Spec
from windtunnel.specs.batches import DocumentLengths
from windtunnel.specs.run import RunPhase

Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_rowwise", "fp8_block", "mxfp8", "nvfp4", "int8"]
Framework = Literal[
    "megatron_2021",
    "megatron_2022",
    "megatron_deepspeed",
    "megatron_core",
    "nemo",
    "megatron_bridge",
    "fsdp1",
    "torchtitan",
    "torchtune",
    "deepspeed",
    "jax",
    "pax",
    "t5x",
    "rocm_megatron",
    "neuron",
    "ddp",
    "generic",
]


class LoraSpec(Spec):
    """Low-rank adapters; base weights are frozen."""

    rank: int = Field(default=16, gt=0)
    targets: tuple[str, ...] = ("qkv", "proj", "fc1", "fc2")
    quantized_base: bool = False


class ExpertLoad(Spec):
    """How tokens spread over experts. `imbalance` = load of the busiest rank over the mean (1 = forced balance)."""

    imbalance: float = Field(default=1.0, ge=1.0)
    loads: tuple[float, ...] | None = None
    """Measured share of each expert (sums to 1); the imbalance follows from it and the placement."""
    popularity: float | None = Field(default=None, ge=0, le=2)
    """In place of these: exponent of Zipf's law over the experts, dealt to ranks in any order; the imbalance is that of
    the busiest rank, chance included."""
    local: float | None = Field(default=None, ge=0, le=1)
    """Share of routed rows whose expert is on the rank that has the token; absent: by chance, 1 / ep."""


class Controller(Spec):
    """One controller for all devices, in place of a launch loop on every host."""

    dispatch_s: float = Field(default=0.0, ge=0)
    """Seconds in which the controller launches one program on all devices of a stage."""
    latency_s: float = Field(default=0.0, ge=0)
    """From controller to devices over the data-centre network, one way."""
    ahead: bool = True
    """Whether programs are launched before their inputs are there."""


class TrainingSpec(Spec):
    """One training step's work."""

    seq_len: Count
    decoder_seq_len: Count | None = None
    """Encoder-decoder only; absent means seq_len."""
    global_batch: Count
    """Sequences per optimizer step."""
    precision: Precision = "bf16"
    phase: Literal["pretrain", "sft", "lora"] = "pretrain"
    lora: LoraSpec | None = None
    framework: Framework = "megatron_core"
    framework_version: str = ""
    optimizer: Literal["adam", "adam8bit", "sgd", "momentum", "adafactor", "lion", "muon", "none"] = "adam"
    gradients: Literal["backward", "zeroth_order"] = "backward"
    """`zeroth_order`: two forward passes with weights moved to either side along one random direction, and a step along
    it by the difference of their losses; no backward, no gradients, no optimizer state."""
    perturbations_apart: bool = False
    """Zeroth order: the two passes run on two replicas side by side, which share their sequences."""
    directions: Count = 1
    """Zeroth order: directions of a step, along each of which every replica moves its weights when it updates them; as
    many as replicas where each has one of its own."""
    optimizer_in_backward: bool = False
    master_weights: Literal["fp32", "bf16", "none"] | None = None
    """Absent means the framework's default."""
    grad_reduce_precision: Literal["fp32", "bf16", "fp16"] | None = None
    attention: Literal["auto", "unfused", "flash1", "flash2", "flash3", "cudnn", "sdpa"] = "auto"
    compile: bool | None = None
    autocast: bool | None = None
    """Mixed precision by `torch.autocast`: weights stay fp32 and every pass casts them; absent: the framework's way."""
    fused_cross_entropy: bool | None = None
    cuda_graphs: Literal["none", "attention", "moe", "layer", "full"] | None = None
    moe_dispatcher: Literal["alltoall", "allgather", "deepep", "hybridep", "einsum"] | None = None
    """`einsum`: tokens are put in the order of experts by dense products with one-hot masks, then as `alltoall`."""
    moe_gate: Literal["fused", "masks"] = "fused"
    """`masks`: the router's choices become one-hot masks over tokens, experts and places, operator by operator
    (DeepSpeed)."""
    fused_permute: bool | None = None
    fused_experts: bool | None = None
    """Experts as one grouped kernel a product with activation and casts in its epilogue; absent means one product an
    expert."""
    expert_load: ExpertLoad = ExpertLoad()
    mean_document_length: float | None = Field(default=None, gt=0)
    """Packed data: attention is block-diagonal with blocks of this mean length."""
    lengths: DocumentLengths | None = None
    """Documents of unlike length, in place of one mean: replicas wait for the one with most work."""
    dropout: bool | None = None
    padded_vocab: bool = True
    float8_all_gather: bool = False
    controller: Controller | None = None
    """Absent: every host launches its own devices' work (multi-controller)."""
    input_s: float = Field(default=0.0, ge=0)
    """Seconds of a step in which devices wait for its batch: reading, tokenising, copies of one node's loaders."""
    gradient_accumulation_sync: bool = True
    """FSDP: whether every micro-batch reduces gradients (no `no_sync`)."""
    expandable_segments: bool | None = None
    """Whether PyTorch's allocator grows segments (`expandable_segments:True`); absent means the framework's default."""
    fsdp_root_group: bool | None = None
    """Whether FSDP gathers embedding and head as one group that stays whole from forward to backward; absent: as the
    framework's releases do that run this loss."""
    run: tuple[RunPhase, ...] = ()
    """Stretches of the run whose steps differ: a warm-up, another length or batch, a heavier step now and then. Step
    time, rates and money are then means over the run; techniques may add phases of their own."""
