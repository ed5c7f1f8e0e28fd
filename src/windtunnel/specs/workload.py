"""What is trained: sequence length, batch, precision, software."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from windtunnel.specs.base import Count, Release, Spec
from windtunnel.specs.batches import DocumentLengths
from windtunnel.specs.run_phases import RunPhase
from windtunnel.specs.switches import (
    NOT_LAUNCHED,
    WRITTEN_BY_TARGETS,
    Assumed,
    Export,
    StepFacts,
    Switch,
    always,
    no_experts,
)

Precision = Literal[
    "fp32", "tf32", "fp16", "bf16", "fp8", "fp8_rowwise", "fp8_block", "mxfp8", "mxfp4", "nvfp4", "int8"
]
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
    "transformers",
    "jax",
    "pax",
    "t5x",
    "rocm_megatron",
    "habana_megatron",
    "colossalai",
    "nanotron",
    "neuron",
    "ddp",
    "internevo",
    "generic",
]


AdapterTarget = Literal[
    "qkv", "proj", "fc1", "fc2", "q", "k", "v", "gate", "up", "mla_up_proj", "shared_experts", "experts"
]
"""Products that adapters may stand next to; `q`, `k`, `v` and `gate`, `up` are parts of `qkv` and `fc1`."""
BaseFormat = Literal["nf4", "nf4_single", "int4", "int8", "fp8", "mxfp8", "mxfp4", "nvfp4"]
FOUR_BITS = ("nf4", "nf4_single", "int4")
"""Formats that frozen weights are stored in and nothing is multiplied in."""


class LoraSpec(Spec):
    """Low-rank adapters; base weights are frozen."""

    rank: int = Field(default=16, gt=0)
    """Rank of the low-rank products."""
    targets: tuple[str, ...] = ("qkv", "proj", "fc1", "fc2")
    """Products with an adapter. `qkv` and `fc1` have one over the joint product; `q`, `k`, `v`, `gate` and `up` have
    one each, which is how PEFT and torchtune write them. Others: `mla_up_proj`, `shared_experts`, `experts` (one for
    each expert)."""
    quantized_base: bool | BaseFormat = False
    """Format of the frozen matrices: `nf4` (also `true`), four bits with 8-bit block scales (double quantisation);
    `nf4_single`, four bits with fp32 block scales; `int4`, four bits with a 16-bit scale and a zero point for each 128
    (GPTQ, AWQ); `int8`, eight bits with a scale for each row; `fp8`, `mxfp8`, `mxfp4`, `nvfp4`, the formats that
    training in them multiplies, so that nothing is cast (Transformer Engine's `fp8_model_init`, NeMo's `fp8_params`).
    Embedding and head keep 16 bits. Absent: 16 bits, or the training precision where the framework holds frozen weights
    in it; `false`: 16 bits."""
    dora: bool = False
    """Adapters change directions alone, and a magnitude for each output is trained (DoRA)."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Probability with which an adapter's input is dropped; above 0 each adapter keeps its own input and a mask."""
    rotation_block: int | None = Field(default=None, gt=1)
    """In place of low-rank products, each adapter rotates the product's input by orthogonal blocks of this size (OFT);
    `rank` then says nothing. Absent: low-rank adapters."""
    trained: tuple[Literal["embedding", "head"], ...] = ()
    """Ends of the model that are trained whole next to the adapters (PEFT's `modules_to_save`)."""

    @property
    def base_format(self) -> BaseFormat | None:
        """Format of the frozen matrices; None: 16 bits."""
        return "nf4" if self.quantized_base is True else self.quantized_base or None


class ExpertLoad(Spec):
    """How tokens spread over experts. `imbalance` = load of the busiest rank over the mean (1 = forced balance)."""

    imbalance: float = Field(default=1.0, ge=1.0)
    """Tokens of the busiest expert over the mean of all."""
    loads: tuple[float, ...] | None = None
    """Measured share of each expert (sums to 1); the imbalance follows from it and the placement."""
    popularity: float | None = Field(default=None, ge=0, le=2)
    """Exponent of Zipf's law, in place of `loads` and `imbalance`, over the experts, dealt to ranks in any order; the
    imbalance is that of the busiest rank, chance included."""
    local: float | None = Field(default=None, ge=0, le=1)
    """Share of routed rows whose expert is on the rank that has the token; absent: by chance, 1 / ep."""


class Controller(Spec):
    """One controller for all devices, in place of a launch loop on every host."""

    dispatch_s: float = Field(default=0.0, ge=0)
    """Seconds in which the controller launches one program on all devices of a stage."""
    latency_s: float = Field(default=0.0, ge=0)
    """One-way latency from the controller to the devices over the data-centre network."""
    ahead: bool = True
    """Whether programs are launched before their inputs are there."""


def _no_autocast(facts: StepFacts) -> str | None:
    """Why `autocast: true` does nothing."""
    if not facts.autocast or facts.casts_weights:
        return None
    if facts.precision in ("fp32", "tf32"):
        return f"under {facts.precision} nothing is cast"
    if facts.zero == 3:
        return "with sharded parameters (zero 3) weights are gathered in the format of the products"
    return f"{facts.framework} keeps its weights in the format of the products"


def _router_decides(load: ExpertLoad) -> tuple[str, ...]:
    """Uneven loads that a launched job takes from its router."""
    return ("expert_load: the router decides",) if load.popularity is not None or load.local is not None else ()


def _phases(run: tuple[RunPhase, ...]) -> tuple[str, ...]:
    """Phases of a run, each of which is another launch."""
    named = ", ".join(phase.name for phase in run)
    return (f"training.run: the job runs the steps that no phase claims ({named}: another launch each)",)


def span_corruption_targets(inputs: int) -> int:
    """Tokens of the decoder where an encoder-decoder is pre-trained on `inputs` tokens with spans cut out.

    15 % of the tokens are cut out in spans of three on the average, each replaced by a mark on both sides: n tokens
    become 0.9 n inputs and 0.2 n targets, 114 at 512 inputs; recipes pad them to blocks of 128. Source: Raffel et al.
    2020, sections 3.1.4 and 3.3.4; `seq_length_dec: 128` of NeMo's and `--decoder-seq-length 128` of Megatron-LM's T5.
    """
    return min(128 * math.ceil(0.2 / 0.9 * inputs / 128), inputs)


class TrainingSpec(Spec):
    """One training step's work."""

    seq_len: Annotated[Count, Switch(exported=WRITTEN_BY_TARGETS)]
    """Tokens of a sequence."""
    decoder_seq_len: Annotated[
        Count | None,
        Switch(
            exported=NOT_LAUNCHED,
            ignored_when=lambda x: None if x.has_decoder else f"{x.model} has no decoder of its own",
            assumed=Assumed(
                origin="targets of the pre-training task (Raffel et al. 2020, section 3.1.4), or as long as the inputs",
                when=lambda x: x.has_decoder,
            ),
        ),
    ] = None
    """Encoder-decoder only. Absent: the targets of span corruption in pre-training (128 tokens at 512 inputs), as many
    tokens as `seq_len` in fine-tuning."""
    global_batch: Annotated[Count, Switch(resolved_as="m", block_prices=False, exported=WRITTEN_BY_TARGETS)]
    """Sequences per optimizer step."""
    precision: Annotated[Precision, Switch(assumed=Assumed(origin="default"), exported=WRITTEN_BY_TARGETS)] = "bf16"
    """Number format of products."""
    phase: Annotated[
        Literal["pretrain", "sft", "lora"],
        Switch(
            exported=WRITTEN_BY_TARGETS,
            assumed=Assumed(origin="training.lora is stated", when=lambda x: x.phase == "lora"),
        ),
    ] = "pretrain"
    """All weights from the start, all weights in fine-tuning (`sft`), or low-rank adapters (`lora`, also where the
    phase is not stated and the adapters are)."""
    lora: Annotated[
        LoraSpec | None,
        Switch(
            ignored_when=lambda x: None if x.phase == "lora" else f"training.phase is {x.phase}",
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """Low-rank adapters in place of the weights themselves."""
    framework: Annotated[
        Framework, Switch(assumed=Assumed(origin="default; it sets what is not stated below"), exported=NOT_LAUNCHED)
    ] = "megatron_core"
    """Training framework, whose defaults and measured coefficients hold."""
    framework_version: Annotated[Release, Switch(ignored_when=lambda x: x.release_note, exported=NOT_LAUNCHED)] = ""
    """Release, container (24.07) or date (2024, 2024-07) whose defaults hold; empty: the newest."""
    recipe: Annotated[str, Switch(exported=NOT_LAUNCHED)] = ""
    """A public recipe by name (`windtunnel stacks FRAMEWORK`), or NAME@RELEASE: it sets what the scenario does not."""
    optimizer: Annotated[
        Literal["adam", "adam8bit", "sgd", "momentum", "adafactor", "lion", "muon", "none"],
        Switch(exported=WRITTEN_BY_TARGETS),
    ] = "adam"
    """Optimizer and its state."""
    gradients: Annotated[Literal["backward", "zeroth_order"], Switch(exported=WRITTEN_BY_TARGETS)] = "backward"
    """`zeroth_order`: two forward passes with weights moved to either side along one random direction, and a step along
    it by the difference of their losses; no backward, no gradients, no optimizer state."""
    perturbations_apart: Annotated[bool, Switch(exported=NOT_LAUNCHED)] = False
    """Zeroth order: the two passes run on two replicas side by side, which share their sequences."""
    directions: Annotated[Count, Switch(exported=NOT_LAUNCHED)] = 1
    """Zeroth order: directions of a step, along each of which every replica moves its weights when it updates them; as
    many as replicas where each has one of its own."""
    reference_passes: Annotated[
        int,
        Switch(
            block_prices=False,
            exported=Export(
                otherwise=lambda value: ("reference_passes: the program trains one model",) if value else (),
            ),
        ),
    ] = Field(default=0, ge=0, le=8)
    """Forward passes without backward next to each micro-batch, of a frozen reference model or of the trained one:
    1 under direct preference optimisation, 3 under KTO. The reference is the base without its adapters, else a second
    copy of the weights in 16 bits."""
    optimizer_in_backward: Annotated[bool, Switch(exported=WRITTEN_BY_TARGETS)] = False
    """Whether each weight is updated as soon as its gradient is there, so that gradients need no room."""
    master_weights: Annotated[
        Literal["fp32", "bf16", "none"] | None,
        Switch(
            assumed=Assumed(origin="as {framework}", when=lambda x: x.keeps_master_weights), exported=WRITTEN_BY_TARGETS
        ),
    ] = None
    """Absent means the framework's default."""
    grad_reduce_precision: Annotated[
        Literal["fp32", "bf16", "fp16"] | None,
        Switch(assumed=Assumed(origin="as {framework}", when=lambda x: x.replicas > 1), exported=WRITTEN_BY_TARGETS),
    ] = None
    """Format that gradients are reduced in; absent: as the framework does."""
    attention: Annotated[
        Literal["auto", "unfused", "flash1", "flash2", "flash3", "cudnn", "sdpa"],
        Switch(assumed=Assumed(origin="as {framework}"), exported=WRITTEN_BY_TARGETS),
    ] = "auto"
    """Attention kernel; absent: what the framework takes on this device."""
    compile: Annotated[
        bool | None,
        Switch(
            ignored_when=lambda x: None if x.compile_acts else f"kernels of {x.framework} stay as they are",
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """Whether blocks are compiled and fused."""
    autocast: Annotated[bool | None, Switch(ignored_when=_no_autocast, exported=NOT_LAUNCHED)] = None
    """Mixed precision by `torch.autocast`: weights stay fp32 and every pass casts them; absent: the framework's way."""
    fused_cross_entropy: Annotated[
        bool | None,
        Switch(framework_default="fused_cross_entropy", resolved_as="fused_loss", exported=WRITTEN_BY_TARGETS),
    ] = None
    """Whether the loss is computed without writing all logits; absent: as the framework does."""
    fused_rope: Annotated[bool | None, Switch(framework_default="fused_rope", exported=WRITTEN_BY_TARGETS)] = None
    """Whether one kernel rotates queries, and one keys; else single operators do. Megatron-Core alone reads it: other
    frameworks compile the rotation or have operators for it anyway."""
    cuda_graphs: Annotated[
        Literal["none", "attention", "moe", "layer", "full"] | None,
        Switch(framework_default="cuda_graphs", exported=WRITTEN_BY_TARGETS),
    ] = None
    """Whether launches are replayed as CUDA graphs."""
    moe_dispatcher: Annotated[
        Literal["alltoall", "allgather", "deepep", "hybridep", "einsum"] | None,
        Switch(
            framework_default="dispatcher",
            resolved_as="dispatcher",
            ignored_when=no_experts,
            assumed=Assumed(origin="as {framework}", when=lambda x: x.has_experts),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """`einsum`: tokens are put in the order of experts by dense products with one-hot masks, then as `alltoall`."""
    moe_gate: Annotated[Literal["fused", "masks"], Switch(ignored_when=no_experts, exported=NOT_LAUNCHED)] = "fused"
    """`masks`: the router's choices become one-hot masks over tokens, experts and places, operator by operator
    (DeepSpeed)."""
    fused_permute: Annotated[bool | None, Switch(ignored_when=no_experts, exported=WRITTEN_BY_TARGETS)] = None
    """Whether one kernel puts tokens in the order of experts, and one back; absent: yes."""
    fused_experts: Annotated[
        bool | None,
        Switch(
            framework_default="fused_experts",
            resolved_as="fused_experts",
            ignored_when=no_experts,
            exported=NOT_LAUNCHED,
        ),
    ] = None
    """Experts as one grouped kernel a product with activation and casts in its epilogue; absent: as the framework's
    release does for this model and device."""
    expert_load: Annotated[
        ExpertLoad,
        Switch(
            ignored_when=no_experts,
            assumed=Assumed(
                origin="no loads given; the busiest expert rank sets the time",
                when=lambda x: x.has_experts and x.ep > 1,
            ),
            exported=Export(otherwise=_router_decides),
        ),
    ] = ExpertLoad()
    """How unevenly tokens fall on experts."""
    mean_document_length: Annotated[float | None, Switch(exported=WRITTEN_BY_TARGETS)] = Field(default=None, gt=0)
    """Packed data: attention is block-diagonal with blocks of this mean length."""
    lengths: Annotated[
        DocumentLengths | None,
        Switch(
            exported=Export(
                otherwise=lambda value: ("training.lengths: documents come from the data set, and mock data has none",)
            )
        ),
    ] = None
    """Documents of unlike length, in place of one mean: replicas wait for the one with most work."""
    dropout: Annotated[
        bool | None,
        Switch(
            ignored_when=always("dropout is counted with unfused attention only, and always there"),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """Whether dropout runs, which keeps its masks."""
    padded_vocab: Annotated[bool | None, Switch(exported=WRITTEN_BY_TARGETS)] = None
    """Whether the vocabulary is padded to a multiple of 128 on each tensor rank; absent: as the framework does."""
    float8_all_gather: Annotated[
        bool,
        Switch(
            ignored_when=lambda x: (
                None
                if x.precision.startswith(("fp8", "mxfp8")) and x.zero == 3
                else "it needs an fp8 precision and zero 3"
            ),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = False
    """Whether sharded weights are gathered in 8 bits (torchao)."""
    controller: Annotated[Controller | None, Switch(exported=NOT_LAUNCHED)] = None
    """Absent: every host launches its own devices' work (multi-controller)."""
    input_s: Annotated[float, Switch(exported=NOT_LAUNCHED)] = Field(default=0.0, ge=0)
    """Seconds of a step in which devices wait for its batch: reading, tokenising, copies of one node's loaders."""
    gradient_accumulation_sync: Annotated[
        bool,
        Switch(
            ignored_when=lambda x: None if x.zero == 3 else "it is a switch of FSDP (zero 3)", exported=NOT_LAUNCHED
        ),
    ] = True
    """FSDP: whether every micro-batch reduces gradients (no `no_sync`)."""
    expandable_segments: Annotated[bool | None, Switch(exported=WRITTEN_BY_TARGETS)] = None
    """Whether PyTorch's allocator grows segments (`expandable_segments:True`); absent means the framework's default."""
    fsdp_root_group: Annotated[bool | None, Switch(exported=NOT_LAUNCHED)] = None
    """Whether FSDP gathers embedding and head as one group that stays whole from forward to backward; absent: as the
    framework's releases do that run this loss."""
    steps_to_converge: Annotated[
        tuple[Count, ...], Switch(exported=NOT_LAUNCHED, block_prices=False, listed_when_absent=False)
    ] = ()
    """Optimizer steps until a target is reached: a number, or one for each run that was seen, which differ by seed.
    Results then say how long it takes to get there (`time_to_train`)."""
    run: Annotated[tuple[RunPhase, ...], Switch(exported=Export(otherwise=_phases))] = ()
    """Stretches of the run whose steps differ: a warm-up, another length or batch, a heavier step now and then. Step
    time, rates and money are then means over the run; techniques may add phases of their own."""

    @field_validator("steps_to_converge", mode="before")
    @classmethod
    def _samples(cls, value: Any) -> Any:
        return (value,) if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _adapters_set_the_phase(self) -> Self:
        if self.lora is not None and "phase" not in self.model_fields_set:
            object.__setattr__(self, "phase", "lora")  # not among the fields that were written: results list it
        return self

    def target_length(self, family: str) -> int:
        """Tokens that the decoder of a model of this family takes: as many as the inputs where there is no encoder."""
        if family != "encoder_decoder":
            return self.seq_len
        if self.decoder_seq_len is not None:
            return self.decoder_seq_len
        return span_corruption_targets(self.seq_len) if self.phase == "pretrain" else self.seq_len
