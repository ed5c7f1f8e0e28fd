"""Fitted and data-sheet coefficients of one (software, device) pair, read from `catalog/coefficients/*.yaml`.

Lookup falls back from the device to its generation to the generic values; what was used is recorded with its grade, so
that a prediction can say where each number came from.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

from windtunnel.cost.files import coefficient_file
from windtunnel.cost.pooled import pooled_factors
from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.specs.device import DeviceSpec, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """How one software generation uses one device. Fractions are of data-sheet peaks; times in seconds."""

    gemm_fraction: dict[str, float] = field(default_factory=lambda: {"bf16": 0.76, "fp8": 0.66, "fp4": 0.6})
    """Maximum achievable matrix throughput by format ("mamf"); fp16 and tf32 use the bf16 entry."""
    gemm_k0: float = 55.0
    gemm_tile_c: float = 10.0
    gemm_wave: float = 0.4
    gemm_bytes_fraction: float = 0.8
    gemm_floor_s: float = 2e-6
    accumulate_exposed: float = 0.4
    """Share of gradient accumulation's traffic that a weight gradient's tiles wait for in their epilogue."""
    grouped_fraction: float = 0.85
    """Further factor on grouped GEMMs."""
    group_s: float = 2e-6
    """Seconds per group of a grouped GEMM."""
    attention_fraction: dict[str, float] = field(
        default_factory=lambda: {"flash1": 0.3, "flash2": 0.4, "flash3": 0.6, "cudnn": 0.65, "sdpa": 0.4}
    )
    attention_ramp: float = 800.0
    """Sequence length at which half of the rate is reached."""
    attention_backward: float = 0.75
    """Backward rate over forward rate."""
    ring_overhead: float = 0.0
    """Extra attention time under ring context parallelism over n ranks, times (n - 1)/n: half-size kernels, waits."""
    attention_floor_s: float = 10e-6
    attention_block: float = 0.0
    """Side of the blocks of scores that a kernel computes whole, whatever a mask hides inside them."""
    attention_head_exponent: float = 0.5
    memory_fraction: float = 0.7
    softmax_fraction: float = 0.55
    """Bandwidth of an unfused softmax over that of streaming kernels: 0.485 against 0.88 of the data sheet on A100."""
    scan_fraction: float = 0.12
    host_kernel_s: float = 6e-6
    host_power: float = 4.0
    """Exponent of the smooth maximum of host and device time (jitter)."""
    host_drained_power: float = 2.0
    """The same for layers whose host waits for the device: its lead is gone after each read."""
    moe_sync_s: float = 0.0
    """Latency of the device-to-host reads of one dropless mixture layer and micro-batch, beside its launches."""
    optimizer_fraction: float = 0.7
    step_overhead_s: float = 2e-3
    scale_up_scale: float = 1.0
    """Factor on the link family's efficiency inside the scale-up domain (see `network.coefficients`)."""
    scale_out_scale: float = 1.0
    gather_exposed: float = 0.0
    """Share of a sharded layer's parameter gather and gradient reduction that its schedule leaves uncovered: a compiled
    loop over layers cannot fetch the next iteration's first weights, and not every collective is asynchronous."""
    partial_node_scale: float = 1.0
    """Factor on the NIC rate of groups that have several, but not all, ranks of a node (see `network.clock.rates`)."""
    collective_skew_s: float = 0.0
    """Rank skew and dispatch added to each collective."""
    multi_node_host: float = 1.0
    """Host time of a launch in a job over several nodes over that in a job on one."""
    multi_node_skew: float = 1.0
    """The same for `collective_skew_s`."""
    quantise_bytes: dict[str, float] = field(
        default_factory=lambda: {
            "fp8": 4.0,
            "fp8_rowwise": 8.0,
            "fp8_block": 6.0,
            "mxfp8": 6.0,
            "nvfp4": 10.0,
            "int8": 4.0,
        }
    )
    transpose_bytes: dict[str, float] = field(default_factory=dict)
    """Matrix format → bytes per element of a tensor that arrives quantised and has to be transposed as well."""
    rowwise_fraction: float = 0.75
    unaligned_fraction: float = 0.29
    """Half-precision GEMM rate over the aligned one when a dimension is not a multiple of eight."""
    board_j_per_flop: float = 0.0
    """Energy of the board over 16-bit operations in sustained products; 0: not measured (see `cost.clock`)."""
    reference_limit: float = 0.0
    """Share of the 16-bit peak that the power of the generation's reference board allows; 0: not limited by power."""
    device_level: frozenset[str] = frozenset()
    """Fractions (`gemm_fraction.bf16`) that were set for the device itself, not for its generation."""
    grades: dict[str, str] = field(default_factory=dict)
    """Coefficient → fitted | analytic | assumed."""
    basis: str = "generic"
    pooled: tuple[str, ...] = ()
    """Coefficients that nobody measured on this pair and that partial pooling scaled."""

    def across_nodes(self) -> Coefficients:
        """As a job that spans several nodes sees them."""
        if self.multi_node_host == self.multi_node_skew == 1.0:
            return self
        return replace(
            self,
            host_kernel_s=self.host_kernel_s * self.multi_node_host,
            collective_skew_s=self.collective_skew_s * self.multi_node_skew,
        )


FULL_PRECISION = frozenset({"fp32", "tf32"})
"""Training precisions whose tensors have four bytes; tf32 rounds the operands inside matrix units alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What a framework does unless told otherwise."""

    style: str = "fused"
    element_bytes: float = 2.0
    """Bytes of an activation, and of a weight and its gradient as computed with (see `in_precision`)."""
    attention: str = "cudnn"
    sp: bool = True
    grad_bytes: float = 4.0
    """Bytes of one gradient on the wire."""
    fp16_grad_bytes: float | None = None
    """The same under fp16 training with loss scaling; absent: `grad_bytes`."""
    grad_buffer_bytes: float = 4.0
    fp16_grad_buffer_bytes: float | None = None
    """The same under fp16 training, where gradients stay in the model's own format; absent: `grad_buffer_bytes`."""
    host_grad_bytes: float | None = None
    """Of a gradient that is kept on the host, where the optimizer's step reads it; absent: as on the device."""
    fused_accumulation: bool = True
    """Whether the weight gradient's GEMM adds to the gradient buffer itself; else a kernel of its own does."""
    grads_persist: bool = True
    """Gradients live in a buffer through the whole step (Megatron); otherwise they appear during the first backward."""
    grad_buckets: bool = False
    """Gradients are copied into buckets that live through the whole step, beside the gradients themselves
    (DistributedDataParallel unless `gradient_as_bucket_view`)."""
    early_stop: bool = False
    """Whether recomputing a block stops at the last tensor that backward needs (non-reentrant PyTorch checkpoints)."""
    named_remat: bool = False
    """Whether a module that recomputes gives up all of its outputs (JAX saves named tensors and nothing else).

    PyTorch's checkpoints keep what a module outside them reads."""
    state_bytes: float = 8.0
    """Bytes of Adam's two moments per parameter."""
    master_bytes: float = 4.0
    param_bytes: float = 2.0
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
    """Backward collectives of the tensor axis beside the other gradient's GEMM, without userbuffers."""
    overlap_p2p: bool = True
    overlap_moe_a2a: bool = False
    fsdp_prefetch: bool = True
    fsdp_copies: str = "none"
    """Copies around the collectives of sharded parameters (`training.unshard`): per_parameter (FSDP2), flat (FSDP1)."""
    gathers_by_tensor: bool = False
    """ZeRO-3 gathers each weight, and reduces each gradient, in a list of pieces (`training.tensor_lists`)."""
    scatter_gather_p2p: bool = False
    fused_cross_entropy: bool = False
    quantised_param_gather: bool = False
    """Whether gathers of updated parameters carry fp8 under tensor-wise scaling (weights then exist in fp8 alone)."""
    cuda_graphs: str = "none"
    dispatcher: str = "alltoall"
    dispatch_skips_host: bool = False
    experts_looped: bool = False
    """Whether a grouped product is a loop over local experts: a product, a wave tail and launches for each."""
    shard_optimizer: bool = True
    compile: bool = False
    expandable_segments: bool = False
    """Whether the launcher sets `expandable_segments:True` for PyTorch's allocator."""
    dummy_wgrad: bool = False
    eager_loss: bool = False
    """Logits and loss run as PyTorch operators (a chain of tensors) unless the loss is fused."""
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

        Megatron-LM accumulates and reduces in fp32 under bf16 but in fp16 under fp16 unless told otherwise
        (`megatron/arguments.py`, v2.2 to v3.0); DeepSpeed's `communication_data_type` defaults to fp16 there.
        """
        stated = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}.get(reduced_in or "")
        own = self.fp16_grad_bytes if precision == "fp16" else None
        return stated or own or self.grad_bytes

    def in_precision(self, precision: str, autocast: bool | None = None) -> Behaviour:
        """The same framework under a training precision: full precision has four bytes everywhere and no second copy.

        `autocast` is the framework's own unless given. It casts fp32 weights.

        Gradients have the type of their parameters, and so have Adam's moments and what data parallelism sends. Fused
        kernels of FlashAttention, cuDNN and TransformerEngine take 16 bits and less: PyTorch's own attention has an
        fp32 kernel (memory-efficient), other stacks run scores, softmax and context one by one.

        Sources: `torch/csrc/autograd` (a gradient's type is its tensor's); `can_use_flash_attention` and
        `can_use_mem_efficient_attention` in PyTorch's `sdp_utils.cpp`; TransformerEngine `get_attention_backend`.
        """
        if precision not in FULL_PRECISION:
            half = self.fp16_grad_buffer_bytes if precision == "fp16" else None
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

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight as it lives through the step."""
        return max(self.param_bytes, self.element_bytes)

    def master_copy_bytes(self, stated: str | None) -> float:
        """Bytes of one master weight beside the weight itself: as stated, else the framework's own."""
        if self.element_bytes == 4.0:
            return 0.0
        return {"fp32": 4.0, "bf16": 2.0, "none": 0.0}.get(stated or "", self.master_bytes)


def _numbers(section: dict[str, Any]) -> dict[str, Any]:
    """Values of a section; an entry is a number or `{value, grade, source, …}`."""
    out: dict[str, Any] = {}
    for key, entry in section.items():
        if isinstance(entry, dict) and "value" in entry:
            out[key] = entry["value"]
        elif isinstance(entry, dict):
            out[key] = _numbers(entry)
        else:
            out[key] = entry
    return out


def lineage(framework: str) -> tuple[str, ...]:
    """The framework and what it inherits from, the root last."""
    out = [framework]
    while (parent := coefficient_file(out[-1]).get("inherits")) and parent not in out:
        out.append(parent)
    return tuple(out)


def _entry(base: Coefficients, name: str) -> float | None:
    """Value of `gemm_fraction.bf16` or `memory_fraction`, None where there is none."""
    key, _, entry = name.partition(".")
    value = getattr(base, key, None)
    found = value.get(entry) if isinstance(value, dict) else value
    return None if found is None else float(found)


def _with_entry(base: Coefficients, name: str, value: float, grade: str) -> Coefficients:
    key, _, entry = name.partition(".")
    new: Any = {**getattr(base, key), entry: value} if entry else value
    return replace(base, **{key: new}, grades={**base.grades, name: grade})


def layers(framework: str, device_id: str, generation: str, kind: str) -> list[dict[str, Any]]:
    """Files that a framework's coefficients come from, the least specific first."""
    return [data for _, data in _owned(framework, (kind, generation, device_id), frozenset())]


def _owned(
    framework: str, levels: tuple[str, str, str], left_out: frozenset[tuple[str, str]]
) -> list[tuple[str, dict[str, Any]]]:
    """(framework or generic, file) from the least specific."""
    chain = [("generic", coefficient_file("generic"))]
    own, fitted = coefficient_file(framework), coefficient_file(f"fitted/{framework}")
    if parent := own.get("inherits"):
        chain.append((parent, coefficient_file(parent)))
        # a parent's fit stands in only where the framework has none of its own: fits of one level belong together
        stands = {level for level in fitted.get("coefficients", {}) if (framework, level) not in left_out}
        if not set(levels) & stands:
            chain.append((parent, coefficient_file(f"fitted/{parent}")))
    return [*chain, (framework, own), (framework, fitted)]


def resolve(
    framework: str,
    device_id: str,
    generation: str,
    kind: str = "",
    *,
    without: frozenset[tuple[str, str]] | None = None,
    pooled: dict[str, Any] | None = None,
) -> tuple[Coefficients, Behaviour]:
    """Coefficients and defaults of a framework on a device.

    Args:
        framework: software generation.
        device_id: catalogue id, may be empty.
        generation: of the device, may be empty.
        kind: of the device, may be empty.
        without: (software, level) whose fits and own values are left out, as if nobody had measured them.
        pooled: effects to use instead of the shipped ones, estimated without the same rows.
    """
    left_out = without or frozenset()
    chain = _owned(framework, (kind, generation, device_id), left_out)
    known = {f.name for f in fields(Coefficients)}
    base, behaviour = Coefficients(), Behaviour()
    basis = "generic"
    measured = False
    for _, data in chain:
        behaviour = replace(behaviour, **_numbers(data.get("behaviour", {})))
    # the same key at a more specific level (kind, generation, device) wins over a later file's less specific one
    for level in ("default", kind, generation, device_id):
        for owner, data in chain:
            section = (data.get("coefficients") or {}).get(level)
            if not section or (owner, level) in left_out:
                continue
            measured = measured or (owner != "generic" and level != "default")
            values = _numbers(section)
            merged: dict[str, Any] = {}
            for name, value in values.items():
                key, _, entry = name.partition(".")  # `gemm_fraction.bf16` is one entry of a table
                if key not in known:
                    raise KeyError(f"{data.get('name', '?')}: coefficient {key} is unknown")
                table = {entry: value} if entry else value
                if level == device_id:
                    keys = [entry] if entry else value if isinstance(value, dict) else ()
                    base = replace(base, device_level=base.device_level | {f"{key}.{k}" for k in keys})
                merged[key] = {**merged.get(key, getattr(base, key)), **table} if isinstance(table, dict) else value
            grades = dict(base.grades)
            for name, given in section.items():
                grades[name] = given.get("grade", "analytic") if isinstance(given, dict) else "analytic"
            base = replace(base, **merged, grades=grades)
            basis = f"{data.get('name', framework)} on {level}" if level != "default" else basis
    effects = coefficient_file("fitted/pooled").get("pooled", {}) if pooled is None else pooled
    if not measured and device_id and effects:  # nobody measured this pair: what its software and generation share
        for name, factor in pooled_factors(effects, lineage(framework)[-1], framework, generation).items():
            value, entry = _entry(base, name), effects[name]
            if value is not None and factor != 1.0:
                base = _with_entry(base, name, min(max(value * factor, entry["low"]), entry["high"]), "analytic")
                base = replace(base, pooled=(*base.pooled, name))
        basis = f"data sheet of {generation}, scaled as measured software and generations are"
    return replace(base, basis=basis), behaviour


@cache
def _resolved(framework: str, device_id: str, generation: str, kind: str) -> tuple[Coefficients, Behaviour]:
    return resolve(framework, device_id, generation, kind)


def coefficients(framework: str, device: DeviceSpec) -> Coefficients:
    """Coefficients for a framework on a device, from the most specific entry available; a profile stands above all."""
    found = _resolved(framework, device.id, device.generation, device.kind)[0]
    return found if device.profile is None else with_profile(found, device.profile, device.id)


def profile_names() -> list[str]:
    """Coefficients that a profile may state; of tables (`gemm_fraction`), any entry after a dot."""
    plain = Coefficients()
    values = {f.name: getattr(plain, f.name) for f in fields(Coefficients) if f.name != "grades"}
    return [name for name, value in values.items() if isinstance(value, (dict, float))]


def with_profile(base: Coefficients, profile: Profile, device_id: str) -> Coefficients:
    """Coefficients with what was measured on the machine itself laid over them.

    Raises:
        BadInput: names that are no coefficients.
    """
    known = set(profile_names())
    wrong = [name for name in profile.coefficients if name.partition(".")[0] not in known]
    if wrong:
        where = "cluster.device.profile.coefficients"
        raise BadInput(
            Problem(f"{where}.{name}", "is no coefficient", nearest=nearest_name(name, known)) for name in wrong
        )
    for name, entry in profile.coefficients.items():
        base = _with_entry(base, name, entry.value, entry.grade)
    level = frozenset(name for name in profile.coefficients if "." in name)
    return replace(base, basis=f"measured on {device_id}", device_level=base.device_level | level, pooled=())


def behaviour(framework: str) -> Behaviour:
    """Defaults of a framework."""
    return _resolved(framework, "", "", "")[1]
