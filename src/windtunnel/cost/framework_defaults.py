"""Defaults of each framework: precisions, overlap, sharding, memory, and the kernels it runs.

They are read from the `behaviour` sections of `catalog/coefficients/*.yaml` and, where a default has changed between
releases or by model, or is likely to, from `stacks/training/*.yaml`. A framework that inherits from another one states
only where it differs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from windtunnel.cost.coefficient_files import coefficient_layers, values
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.stacks.defaults import ANYWHERE, ReleaseDefault, Setting, defaults_at

FULL_PRECISION = frozenset({"fp32", "tf32"})
"""Training precisions whose tensors have four bytes; tf32 rounds the operands inside matrix units alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What a framework does unless the scenario says otherwise."""

    style: str = "fused"
    element_bytes: float = 2.0
    """Bytes of an activation, and of a weight and its gradient as computed with (see `in_precision`)."""
    attention: str = "cudnn"
    sp: bool = True
    grad_bytes: float = 4.0
    """Bytes of one gradient on the wire."""
    fp16_grad_bytes: float | None = None
    """Bytes of one gradient on the wire under fp16 training with loss scaling; absent: `grad_bytes`."""
    grad_buffer_bytes: float = 4.0
    fp16_grad_buffer_bytes: float | None = None
    """Bytes of one gradient in its buffer under fp16 training, where gradients stay in the model's own format; absent:
    `grad_buffer_bytes`."""
    bf16_grad_buffer_bytes: float | None = None
    """The same under bf16 training and formats below it."""
    host_grad_bytes: float | None = None
    """Bytes of one gradient that is kept on the host, where the optimizer's step reads it; absent: as on the device."""
    fused_accumulation: bool = True
    """Whether the weight gradient's GEMM adds to the gradient buffer itself; else a kernel of its own does."""
    grads_persist: bool = True
    """Gradients live in a buffer through the whole step (Megatron); otherwise they appear during the first backward."""
    reduce_bucket_params: float = 0.0
    """Parameters of a bucket, in 16 bits, that ZeRO copies gradients into before it reduces them; it exists whether
    they fill it or not, twice where reductions run next to backward (DeepSpeed's `reduce_bucket_size`); 0: none."""
    live_params: float = 0.0
    """Parameters that ZeRO-3 lets be whole at a time; weights of larger layers are gathered one by one (DeepSpeed's
    `stage3_max_live_parameters` and `stage3_max_reuse_distance`); 0: layers are gathered whole."""
    grads_follow_optimizer: bool = False
    """Gradients go where offloaded optimizer state is, which updates weights there (ZeRO-Offload)."""
    step_casts_gradients: bool = False
    """The optimizer's step casts all gradients of its shard to fp32 at once (DeepSpeed)."""
    optimizer_copies: float = 0.0
    """Tensors of a moment's size that a step of Adam has beside its state: an optimizer of single or grouped operators
    writes out the root of the second moment (`torch.optim.adamw`: `_foreach_sqrt`, or a tensor and its quotient for one
    tensor at a time); fused kernels write none."""
    trainer_optimizer_copies: float | None = None
    """The same in fine-tuning, where the script's own optimizer takes the place of the framework's (Hugging Face's
    Trainer hands `adamw_torch` to DeepSpeed); absent: `optimizer_copies`."""
    pinned_shards: str = ""
    """What one page-locked piece of offloaded weights holds, and of their gradients, which then come with them: the
    shard of a `weight` (FSDP2) or a `layer` (FSDP1); empty: other pieces, gradients as `offload.gradients` says."""
    host_step_bytes: float = 0.0
    """Bytes of host memory a parameter that an optimizer on the host takes beside its state and gradients where it
    updates its shard at once (ZeRO-1 and ZeRO-2)."""
    fsdp_doubles_experts: bool = False
    """Sharding of all states beside expert parallelism holds the local experts whole next to their shards, and their
    optimizer state twice (Megatron-FSDP)."""
    flattens_through_host: bool = False
    """Weights become one buffer through host memory where the device has no room for them twice (DeepSpeed's ZeRO-1
    and ZeRO-2); otherwise both copies lie on the device until the first is freed (Megatron-Core)."""
    grad_buckets: bool = False
    """Gradients are copied into buckets that live through the whole step, next to the gradients themselves
    (DistributedDataParallel unless `gradient_as_bucket_view`)."""
    early_stop: bool = False
    """Whether recomputing a block stops at the last tensor that backward needs (non-reentrant PyTorch checkpoints)."""
    recompute_modules: tuple[str, ...] = ()
    """Modules that are cheap to recompute and that the framework recomputes by name: `plan` tries them for models with
    experts. Megatron-Core: `--recompute-modules layernorm moe_act mla_up_proj`, what DeepSeek-V3 recomputed (DeepSeek
    2024, arXiv 2412.19437, section 3.2.3)."""
    selective_modules: tuple[str, ...] = ("core_attn",)
    """What `recompute: selective` recomputes. Megatron-Core: the attention core; torchtitan: per operator (`per_op`,
    `activation_checkpoint.selective_ac_option: op`)."""
    named_remat: bool = False
    """Whether a module that recomputes gives up all of its outputs (JAX saves named tensors and nothing else).

    PyTorch's checkpoints keep what a module outside them reads."""
    state_bytes: float = 8.0
    """Bytes of Adam's two moments per parameter."""
    master_bytes: float = 4.0
    param_bytes: float = 2.0
    adapter_bytes: float | None = None
    """Bytes of one weight of a low-rank adapter, its gradient and each of its moments; absent: as activations."""
    overlap_grad_reduce: bool = True
    overlap_param_gather: bool = True
    overlap_tp: bool = False
    async_tp: bool = False
    """Tensor-axis overlap is PyTorch's asynchronous one: copy engines, no bulk pairs, scatters added at the end."""
    tp_gathers_quantised: tuple[str, ...] = ()
    """Precisions that cast activations and gradients before the tensor axis gathers them."""
    tp_overlap_method: str = "ring"
    """How overlapped tensor-parallel collectives are cut: `method` of the technique `tp-overlap`."""
    eager_ring_merge: bool = False
    """Ring attention merges partial outputs operator by operator in fp32."""
    tp_regather: bool = True
    tp_bulk_overlap: bool = False
    """Backward collectives of the tensor axis next to the other gradient's GEMM, without userbuffers."""
    overlap_p2p: bool = True
    overlap_moe_a2a: bool = False
    fsdp_prefetch: bool = True
    fsdp_copies: str = "none"
    """Copies around the collectives of sharded parameters (`training.unshard`): per_parameter (FSDP2), flat (FSDP1)."""
    accumulation_casts: bool = False
    """Under bf16 each micro-batch's gradients are cast to fp32 tensors that are then added to the buffer (DeepSpeed's
    BF16_Optimizer: `hp_grad.data.add_(lp.grad.data.to(hp_grad.dtype))`)."""
    gathers_by_tensor: bool = False
    """ZeRO-3 gathers each weight, and reduces each gradient, in a list of pieces (`training.tensor_lists`)."""
    bf16_all_reduce: bool = False
    """Under bf16 and ZeRO-1 each rank receives all gradients and updates its part (DeepSpeed's BF16_Optimizer)."""
    whole_tensor_owners: bool = False
    """ZeRO-1 and ZeRO-2 give ranks whole tensors: gradients are all-reduced, owners broadcast what they updated."""
    muon_owners: bool = False
    """Under Muon ZeRO-1 gives ranks whole matrices: gradients are all-reduced, updated weights gathered
    (Megatron-Core's `LayerWiseDistributedOptimizer`); else contiguous ranges, and momenta
    are gathered (Moonlight, arXiv 2502.16982)."""
    scatter_gather_p2p: bool = False
    fused_cross_entropy: bool = False
    quantised_param_gather: bool = False
    """Whether gathers of updated parameters carry fp8 under tensor-wise scaling (weights then exist in fp8 alone)."""
    frozen_in_format: bool = False
    """Whether weights under adapters are cast once, when they are loaded, and held in the format of the products."""
    cuda_graphs: str = "none"
    dispatcher: str = "alltoall"
    dispatch_skips_host: bool = False
    fused_rope: bool = True
    """Whether rotary embedding is one kernel for queries and one for keys, where the stack has such kernels."""
    rope_by_document: bool = False
    """Unfused rotary embedding of packed documents is a loop over them (`training.eager_operators`)."""
    exchange_by_document: bool = False
    """All-to-all context parallelism of packed documents makes its indices in a loop over them, each a read of two
    numbers from the device (`training.eager_operators`)."""
    experts_looped: bool = False
    """Whether a grouped product is a loop over local experts: a product, a wave tail and launches for each."""
    fused_experts: bool = False
    """Whether experts are one grouped kernel a product with activation and casts in its epilogue."""
    shard_optimizer: bool = True
    compile: bool = False
    expandable_segments: bool = False
    """Whether the launcher sets `expandable_segments:True` for PyTorch's allocator."""
    dummy_wgrad: bool = False
    pads_vocabulary: bool = True
    """Embedding and head get rows until the vocabulary is a multiple of 128 on each rank of the tensor axis (Megatron's
    `make_vocab_size_divisible_by`); compilers that pad tiles cost the same. Otherwise they have the model's rows."""
    eager_loss: bool = False
    """Logits and loss run as PyTorch operators (a chain of tensors) unless the loss is fused."""
    trainer_eager_loss: bool = False
    """Whether they do so in fine-tuning, where the model is that of the script and not of the framework (Hugging Face's
    models under DeepSpeed: `logits.float()`, a shifted copy, cross entropy)."""
    loss_chunks: int = 1
    """Pieces in which a fused loss and the head's output are computed."""
    planned_memory: bool = False
    """A compiler plans all of a step's memory (XLA): no cached blocks, no second step; weights are gathered and
    gradients reduced one tensor at a time."""
    steady_interleaving: bool = False
    """Interleaved 1F1B warms up as usual also with as many micro-batches as stages (torch.distributed.pipelining)."""
    root_gathered: bool = False
    """FSDP gathers embedding and head as one group that stays whole from forward to backward. torchtitan: until the
    releases that also compile the loss, which shard them apart."""
    saves_quantised: bool = True
    """Inputs of fp8 and fp4 products are kept quantised for backward (TransformerEngine); otherwise in 16 bits."""
    expands_kv: bool = False
    """Keys and values are repeated for every query head before attention, and kept so."""
    autocast: bool = False
    """Passes run under `torch.autocast`: weights stay fp32 and are cast for every micro-batch (`training.autocast`)."""
    keeps_stage_outputs: bool = False
    """torch.distributed.pipelining: each stage has receive buffers for all micro-batches; without a fused loss (older
    releases) the last stage keeps every micro-batch's output and joins them."""

    def wire_bytes(self, precision: str, reduced_in: str | None = None) -> float:
        """Bytes of one gradient on the wire: as stated, else the framework's own for the training precision.

        Megatron-LM accumulates and reduces in fp32 under bf16 but in fp16 under fp16 unless stated otherwise
        (`megatron/arguments.py`, v2.2 to v3.0); DeepSpeed's `communication_data_type` defaults to fp16 there.
        """
        stated = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}.get(reduced_in or "")
        own = self.fp16_grad_bytes if precision == "fp16" else None
        return stated or own or self.grad_bytes

    def in_precision(self, precision: str, autocast: bool | None = None) -> Behaviour:
        """Defaults of this framework under a training precision.

        Full precision has four bytes everywhere and no second copy.

        `autocast` is the framework's own unless given. It casts fp32 weights.

        Gradients have the type of their parameters, and so have Adam's moments and what data parallelism sends. Fused
        kernels of FlashAttention, cuDNN and TransformerEngine take 16 bits and less: PyTorch's own attention has an
        fp32 kernel (memory-efficient), other stacks run scores, softmax and context one by one.

        Sources: `torch/csrc/autograd` (a gradient's type is its tensor's); `can_use_flash_attention` and
        `can_use_mem_efficient_attention` in PyTorch's `sdp_utils.cpp`; TransformerEngine `get_attention_backend`.
        """
        if precision not in FULL_PRECISION:
            half = self.fp16_grad_buffer_bytes if precision == "fp16" else self.bf16_grad_buffer_bytes
            casts = self.autocast if autocast is None else autocast and self.param_bytes == 4.0
            if casts == self.autocast and not half:
                return self
            return replace(self, autocast=casts, grad_buffer_bytes=half or self.grad_buffer_bytes)
        own = self.style == "eager" or self.attention == "sdpa"
        return replace(
            self,
            element_bytes=4.0,
            grad_bytes=4.0,
            grad_buffer_bytes=4.0,
            state_bytes=8.0,
            master_bytes=0.0,
            autocast=False,
            attention="sdpa" if own else "unfused",
        )

    def gradient_width(self, zero: int) -> float:
        """Bytes of one gradient in its buffer under a stage of ZeRO.

        DeepSpeed's optimizer that keeps fp32 gradients under bf16 knows stages 0 and 1 alone; else they have the
        model's type. Source: DeepSpeed `runtime/engine.py` (`BF16_Optimizer`).
        """
        return self.element_bytes if self.bf16_all_reduce and zero >= 2 else self.grad_buffer_bytes

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight as it lives through the step."""
        return max(self.param_bytes, self.element_bytes)

    def master_copy_bytes(self, stated: str | None) -> float:
        """Bytes of one master weight next to the weight itself: as stated, else the framework's own."""
        if self.element_bytes == 4.0:
            return 0.0
        return {"fp32": 4.0, "bf16": 2.0, "none": 0.0}.get(stated or "", self.master_bytes)


def behaviour(framework: str, version: str = "", setting: Setting = ANYWHERE) -> Behaviour:
    """Defaults of a framework.

    Args:
        framework: software generation.
        version: its release; empty for the newest.
        setting: what it runs on and runs.
    """
    return _defaults(framework, version, setting)[0]


def behaviour_of(training: TrainingSpec, device: DeviceSpec, model: ModelSpec) -> Behaviour:
    """Defaults of a workload's software on a device for a model, in the workload's precision."""
    found = behaviour(training.framework, training.framework_version, Setting.of(training, device, model))
    return found.in_precision(training.precision, training.autocast)


def dated_defaults(framework: str, version: str = "", setting: Setting = ANYWHERE) -> dict[str, ReleaseDefault]:
    """Fields of `behaviour` that the table of releases decides, with release and source."""
    return dict(_defaults(framework, version, setting)[1])


@cache
def _defaults(framework: str, version: str, setting: Setting) -> tuple[Behaviour, dict[str, ReleaseDefault]]:
    found, dated = Behaviour(), dict[str, ReleaseDefault]()
    for owner, data in coefficient_layers(framework):
        stated = values(data.get("behaviour", {}))
        found = replace(found, **stated)
        dated = {name: entry for name, entry in dated.items() if name not in stated}
        if owner == "generic" and framework != owner:  # its rows are those of unknown software, not everybody's
            continue
        own = defaults_at(owner, version, setting)
        found = replace(found, **{name: entry.value for name, entry in own.items()})
        dated |= own
    return found, dated
