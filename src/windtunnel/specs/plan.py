"""How the work is spread over the cluster."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from windtunnel.specs.base import Bytes, Count, Spec
from windtunnel.specs.compression import Compression, LocalSteps

Axis = Literal["tp", "cp", "ep", "dp", "pp"]
RECOMPUTE_MODULES = (
    "core_attn",
    "attn",
    "qkv",
    "proj",
    "mlp",
    "mlp_act",
    "norm",
    "moe",
    "moe_act",
    "shared_experts",
    "mla_up_proj",
    "fc1",
    "fc2",
    "per_op",
)
"""Module names that `recompute.modules` accepts. `per_op` is torchtitan's selective checkpointing: every second
matrix multiplication is recomputed, attention is kept, element-wise results are recomputed."""


Layers = Annotated[int, Field(ge=0)]


def is_layer_list(value: Any) -> bool:
    """Whether a value counts layers of stages, one after the other."""
    return isinstance(value, list | tuple) and bool(value) and all(type(n) is int and n >= 0 for n in value)


class Recompute(Spec):
    """Which forward results are computed again in the backward pass."""

    policy: Literal["none", "selective", "full", "modules"] = "none"
    modules: tuple[str, ...] = ()
    num_layers: Layers | tuple[Layers, ...] | None = None
    """Layers per stage that recompute, its first ones; a list has one count a stage (pp entries) or a virtual stage
    (pp·vpp entries, in model order); absent means all."""
    early_stop: bool | None = None
    """Whether a block's recomputation ends with the last tensor that backward needs; absent: as the framework does
    (PyTorch's checkpoints from 2.1 on)."""

    keep_collectives: bool = False
    """Full recomputation keeps what collectives brought and does not repeat them."""

    @field_validator("num_layers", mode="before")
    @classmethod
    def _counts(cls, value: Any) -> Any:
        if isinstance(value, list | tuple) and not is_layer_list(value):
            raise ValueError("must be layers a stage, or a list of them by stage or virtual stage, none negative")
        return value


Tier = Literal["host", "cxl", "nvme"]
TENSOR_CLASSES = ("activations", "optimizer", "params", "gradients")


class Offload(Spec):
    """Fractions kept outside the device's memory, and where: host memory, CXL cards or drives of the node."""

    activations: float = Field(default=0.0, ge=0, le=1)
    optimizer: float = Field(default=0.0, ge=0, le=1)
    params: float = Field(default=0.0, ge=0, le=1)
    gradients: float = Field(default=0.0, ge=0, le=1)
    """Copied out after every backward pass and added up where they live; needs no buffer of all of them."""
    gradients_in_place: bool = False
    """Whether gradients take the place of the weights that they belong to, wherever those live, and need no buffer."""
    tier: Tier = "host"
    """Of classes that name none of their own."""
    activations_tier: Tier | None = None
    optimizer_tier: Tier | None = None
    params_tier: Tier | None = None
    gradients_tier: Tier | None = None
    stripe: bool = True
    """Whether tensors on CXL cards lie on all of them; else each device uses one card."""
    prefetch_layers: Count = 2
    """Layers that have room on the device at a time: copying begins when the layer so many before its own has run
    (1: nothing ahead, 2: the next layer while one runs)."""
    pinned_bytes: Bytes = 0.0
    """Staging buffers in host memory, per device."""
    update: Literal["pipelined", "in_turn", "beside_backward"] = "pipelined"
    """How the host updates what it keeps: after the last gradient, copies and update as a pipeline or one after the
    other; or layer by layer as gradients arrive (no clipping by the norm of all gradients)."""
    widening: Literal["none", "host"] = "none"
    """`host`: 16-bit gradients come down into memory that is not page-locked, and the host widens them to 32 bits while
    backward waits (DeepSpeed's ZeRO-3 with its optimizer on the host)."""
    update_on_device: float = Field(default=0.0, ge=0, le=1)
    """Share of offloaded optimizer state that is copied in, updated on the device and copied back, in between what
    the host updates."""
    update_subgroup: Count = 100_000_000
    """Parameters that are updated at a time where the device takes a share."""

    def tier_of(self, name: str) -> Tier:
        """Where a class of tensors lives: one of `TENSOR_CLASSES`."""
        own: Tier | None = getattr(self, f"{name}_tier")
        return own or self.tier

    @property
    def any(self) -> bool:
        """Whether anything lives elsewhere."""
        return any(getattr(self, name) > 0 for name in TENSOR_CLASSES)


class ShardLevels(Spec):
    """ZeRO-3 whose tensors are cut over unlike numbers of ranks, and what their pieces travel in."""

    params: Count | None = None
    """Ranks that weights are cut over and gathered among; absent: as optimizer state. What is less than that is
    gathered from the updated state once a step."""
    params_again: Count | None = None
    """Ranks that a second copy of the weights is cut over, from which backward gathers (ZeRO++'s secondary
    partition); absent: none."""
    gradients: Count | None = None
    """Ranks among which gradients are scattered after every micro-batch; the rest of the reduction is once a step."""
    gather_bits: Literal[4, 8, 16] = 16
    """Of a weight on its way to a forward pass; less than 16 costs passes over memory at both ends."""
    reduce_bits: Literal[4, 8, 16, 32] | None = None
    """Of a gradient on its way; absent: as the framework reduces."""


class Overlap(Spec):
    """Communication that runs beside computation. Absent means the framework's default."""

    grad_reduce: bool | None = None
    param_gather: bool | None = None
    tp: bool | None = None
    p2p: bool | None = None
    moe_a2a: bool | None = None
    fsdp_prefetch: bool | None = None
    one_communicator: bool | None = None
    """ZeRO-3: gathers and reductions of shards go through one communicator and so one after the other, whatever their
    streams: the next layer's gather before this one's reduction. Absent: side by side."""


class PlanSpec(Spec):
    """Axis sizes and policies. `dp: auto` is devices / (tp·pp·cp)."""

    tp: Count = 1
    sp: bool | None = None
    """Sequence parallelism on the tensor axis; absent means on when tp > 1 (off for 2021 software)."""
    pp: Count = 1
    vpp: Count = 1
    """Model chunks per pipeline stage."""
    cp: Count = 1
    cp_kind: Literal["ring", "all_to_all", "hybrid", "all_gather", "token_ring"] = "ring"
    """How ranks of a sequence exchange: keys and values in a ring, heads by all-to-all, both, keys and values gathered,
    or queries ahead and partial outputs back (`token_ring`)."""
    sequence_groups: Literal["fixed", "by_length", "solved", "zones"] = "fixed"
    """Ranks of a sequence where lengths differ (`training.lengths`): always cp; as many as its length needs, work dealt
    to all dp · cp ranks; groups of the sizes that a linear programme finds for each micro-batch; or attention alone by
    length (rank, node, several nodes), with tokens moved between ranks for everything else."""
    cp_all_to_all: Count = 1
    """`hybrid`: size of the inner all-to-all axis; divides cp."""
    ep: Count = 1
    etp: Count = 1
    expert_tokens: Literal["split", "replicated", "dropped"] = "split"
    """Tokens of ranks that share a layer (tp > 1) on their way to experts: each rank has its own part (`split`,
    sequence parallelism); all have the same ones and each sends them (`replicated`), or each sends its part and they
    are gathered again (`dropped`); the latter two need sp false and etp = tp."""
    expert_nodes: Count | None = None
    """Most nodes that a token's experts lie on (node-limited routing); absent: no limit."""
    dp: Count | Literal["auto"] = "auto"
    zero: int = Field(default=1, ge=0, le=3)
    shard_group: Count | None = None
    """Ranks that a ZeRO/FSDP shard is spread over (HSDP); absent means dp·cp."""
    levels: ShardLevels | None = None
    """ZeRO-3 over several levels of the network; absent: everything is cut over the shard group."""
    compression: Compression = Compression()
    local_steps: LocalSteps | None = None
    """Gradients stay with their replica, and replicas are averaged once a round; absent: gradients are reduced."""
    reshard_after_forward: bool | None = None
    """ZeRO-3: gather again for backward (absent: yes without a pipeline)."""
    join_branches: bool | None = None
    """Blocks whose attention and feed-forward network share a norm (`parallel_block`): one gather and one reduction of
    the tensor axis for both (absent: no)."""
    gathered_layers: Count | None = None
    """ZeRO-3: layers whose weights are whole at a time, each gathered while those before it run (absent: 2)."""
    gather_per_block: bool | None = None
    """ZeRO-3 in a pipeline: gather a chunk once for the micro-batches that pass it one after the other, and reduce its
    gradients once for them (absent: no). Two gathered chunks are kept, one in each direction."""
    mbs: Count = 1
    schedule: str | None = None
    """A schedule id (`windtunnel techniques list --family schedule`); absent: 1f1b, interleaved_1f1b when vpp > 1."""
    recompute: Recompute = Recompute()
    offload: Offload = Offload()
    overlap: Overlap = Overlap()
    stage_layers: tuple[int, ...] | None = None
    """Layers of each virtual stage in model order (pp·vpp entries); absent: even, see `parallel.stages`."""
    embedding_as_layer: bool | None = None
    loss_as_layer: bool | None = None
    """Count embedding / loss as one layer when splitting (Megatron `account_for_*_in_pipeline_split`)."""
    order: tuple[Axis, ...] = ("tp", "cp", "ep", "dp", "pp")
    """Mesh axes, fastest varying (closest together) first."""

    collectives: dict[str, str] = {}
    """Algorithm of a collective (`ring`, `tree`, `nvls` …) by `AXIS.OPERATION`, such as `tp.all_reduce`; AXIS `all`
    stands for every group. Absent: what the communication library chooses."""
    collective_library: str | None = None
    """Whose choice of algorithms: nccl, nccl_nvls_off, nccl_2.18, nccl_2.12, rccl, oneccl, hccl, generic, or one laid
    over the vendor's: mscclpp (puts and signals), nvrar (small sums across nodes); absent: the vendor's own library."""
    collective_sms: Count | None = None
    """SMs that a collective holds at most, on every axis (`NCCL_MAX_CTAS`); the rest stays with kernels beside it. One
    moves no more than its part of the scale-up link's rate under the library's own number. Absent: that number."""

    group_axis: Literal["dp", "pp"] = "dp"
    """On a cluster of unlike groups, the axis that crosses them: dp, every group runs whole replicas; pp, every group
    runs consecutive stages."""
    batch_shares: tuple[Count, ...] | Literal["balanced"] | None = None
    """Micro-batches per replica and step in each group, where groups lie along dp; absent: the same in all; `balanced`:
    by what a micro-batch takes on each."""

    @field_validator("order")
    @classmethod
    def _each_axis_once(cls, order: tuple[Axis, ...]) -> tuple[Axis, ...]:
        each_axis_once(order)
        return order


def each_axis_once(order: tuple[Axis, ...]) -> None:
    """Check an order of mesh axes.

    Raises:
        ValueError: an axis is missing or named twice.
    """
    if {*order, "ep"} != {"tp", "cp", "dp", "pp", "ep"} or len(set(order)) < len(order):
        raise ValueError("must name tp, cp, dp and pp (and ep) once each")
