"""How the work is spread over the cluster."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from windtunnel.specs.base import Bytes, Count, Spec
from windtunnel.specs.compression import Compression, LocalSteps
from windtunnel.specs.switches import (
    NOT_LAUNCHED,
    WRITTEN_BY_TARGETS,
    Assumed,
    Export,
    Switch,
    by_layer,
    cp_is_1,
    first,
    no_buckets,
    no_experts,
    not_fsdp,
    not_offloaded,
    pp_is_1,
    tp_is_1,
)

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


def _sent_whole(given: Compression) -> tuple[str, ...]:
    """What travels whole where a launched job knows no compression."""
    notes = []
    if given.gradients is not None:
        notes.append(f"compression of gradients ({given.gradients.kind}): they travel whole")
    if given.gather_bits is not None:
        notes.append(f"weights gathered in {given.gather_bits:g} bits: they travel as they are computed with")
    if given.hop_bits is not None:
        notes.append(f"activations in {given.hop_bits:g} bits between stages: they travel as they are computed with")
    return tuple(notes)


def _algorithms(given: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The named algorithms of collectives, among which the communication library chooses by itself."""
    named = ", ".join(f"{where} {algorithm}" for where, algorithm in given)
    return (f"collectives: {named}: the communication library chooses (NCCL_ALGO: one choice for every group)",)


class Recompute(Spec):
    """Which forward results are computed again in the backward pass."""

    policy: Annotated[Literal["none", "selective", "full", "modules"], Switch(exported=WRITTEN_BY_TARGETS)] = "none"
    """`none`, `selective` (attention between its products), `full` (whole layers), or `modules` by name."""
    modules: Annotated[
        tuple[str, ...],
        Switch(
            exported=WRITTEN_BY_TARGETS,
            ignored_when=lambda x: None if x.recompute == "modules" else f"policy is {x.recompute}",
        ),
    ] = ()
    """`modules`: parts of a layer that are computed again."""
    num_layers: Annotated[
        Layers | tuple[Layers, ...] | None,
        Switch(exported=WRITTEN_BY_TARGETS, ignored_when=lambda x: "policy is none" if x.recompute == "none" else None),
    ] = None
    """Layers per stage that recompute, its first ones; a list has one count a stage (pp entries) or a virtual stage
    (pp·vpp entries, in model order); absent means all."""
    early_stop: Annotated[bool | None, Switch(exported=WRITTEN_BY_TARGETS)] = None
    """Whether a block's recomputation ends with the last tensor that backward needs; absent: as the framework does
    (PyTorch's checkpoints from 2.1 on)."""

    keep_collectives: Annotated[
        bool,
        Switch(
            ignored_when=lambda x: None if x.recompute == "full" else f"policy is {x.recompute}",
            exported=Export(otherwise="recompute.keep_collectives: collectives run again where layers are recomputed"),
        ),
    ] = False
    """Full recomputation keeps what collectives brought and does not repeat them."""

    @field_validator("policy", mode="before")
    @classmethod
    def _known_policy(cls, value: Any) -> Any:
        if isinstance(value, str) and value in RECOMPUTE_MODULES:
            raise ValueError(f"must be none, selective, full or modules; {value} is a module: recompute: [{value}]")
        return value

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

    activations: Annotated[float, Switch(axis="policy", exported=WRITTEN_BY_TARGETS)] = Field(default=0.0, ge=0, le=1)
    """Share of the activations that go to the host."""
    optimizer: Annotated[float, Switch(axis="policy", exported=WRITTEN_BY_TARGETS)] = Field(default=0.0, ge=0, le=1)
    """Share of the optimizer's state that lives on the host."""
    params: Annotated[float, Switch(axis="policy", exported=WRITTEN_BY_TARGETS)] = Field(default=0.0, ge=0, le=1)
    """Share of the weights that live on the host."""
    gradients: Annotated[float, Switch(exported=WRITTEN_BY_TARGETS)] = Field(default=0.0, ge=0, le=1)
    """Copied out after every backward pass and added up where they live; needs no buffer of all of them."""
    gradients_in_place: Annotated[
        bool,
        Switch(
            ignored_when=not_offloaded("gradients", "params", why="weights and gradients stay on the device"),
            exported=NOT_LAUNCHED,
        ),
    ] = False
    """Whether gradients take the place of the weights that they belong to, wherever those live, and need no buffer."""
    tier: Annotated[
        Tier,
        Switch(ignored_when=not_offloaded(*TENSOR_CLASSES, why="nothing is offloaded"), exported=WRITTEN_BY_TARGETS),
    ] = "host"
    """Tier of the classes that name none of their own."""
    activations_tier: Annotated[
        Tier | None,
        Switch(
            ignored_when=not_offloaded("activations", why="no activations are offloaded"), exported=WRITTEN_BY_TARGETS
        ),
    ] = None
    """Where activations go; absent: `tier`."""
    optimizer_tier: Annotated[
        Tier | None,
        Switch(ignored_when=not_offloaded("optimizer", why="no optimizer are offloaded"), exported=WRITTEN_BY_TARGETS),
    ] = None
    """Where the optimizer's state lives; absent: `tier`."""
    params_tier: Annotated[
        Tier | None,
        Switch(ignored_when=not_offloaded("params", why="no params are offloaded"), exported=WRITTEN_BY_TARGETS),
    ] = None
    """Where weights live; absent: `tier`."""
    gradients_tier: Annotated[
        Tier | None,
        Switch(ignored_when=not_offloaded("gradients", why="no gradients are offloaded"), exported=WRITTEN_BY_TARGETS),
    ] = None
    """Where gradients live; absent: `tier`."""
    stripe: Annotated[
        bool, Switch(ignored_when=not_offloaded(*TENSOR_CLASSES, why="nothing is offloaded"), exported=NOT_LAUNCHED)
    ] = True
    """Whether tensors on CXL cards lie on all of them; else each device uses one card."""
    prefetch_layers: Annotated[
        Count,
        Switch(
            ignored_when=not_offloaded("params", "activations", "gradients", why="no layer's tensors are offloaded"),
            exported=NOT_LAUNCHED,
        ),
    ] = 2
    """Layers that have room on the device at a time: copying begins when the layer so many before its own has run
    (1: nothing ahead, 2: the next layer while one runs)."""
    pinned_bytes: Annotated[
        Bytes, Switch(ignored_when=not_offloaded(*TENSOR_CLASSES, why="nothing is offloaded"), exported=NOT_LAUNCHED)
    ] = 0.0
    """Staging buffers in host memory, per device."""
    update: Annotated[
        Literal["pipelined", "in_turn", "beside_backward"],
        Switch(ignored_when=not_offloaded("optimizer", why="no optimizer state is offloaded"), exported=NOT_LAUNCHED),
    ] = "pipelined"
    """How the host updates what it keeps: after the last gradient, copies and update as a pipeline or one after the
    other; or layer by layer as gradients arrive (no clipping by the norm of all gradients)."""
    widening: Annotated[
        Literal["none", "host"],
        Switch(ignored_when=not_offloaded("optimizer", why="no optimizer state is offloaded"), exported=NOT_LAUNCHED),
    ] = "none"
    """`host`: 16-bit gradients come down into memory that is not page-locked, and the host widens them to 32 bits while
    backward waits (DeepSpeed's ZeRO-3 with its optimizer on the host)."""
    update_on_device: Annotated[float, Switch(exported=NOT_LAUNCHED)] = Field(default=0.0, ge=0, le=1)
    """Share of offloaded optimizer state that is copied in, updated on the device and copied back, in between what
    the host updates."""
    update_subgroup: Annotated[
        Count,
        Switch(
            ignored_when=first(
                not_offloaded("optimizer", why="no optimizer state is offloaded"),
                lambda x: None if x.update_on_device else "update_on_device is 0",
            ),
            exported=NOT_LAUNCHED,
        ),
    ] = 100_000_000
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
    """Bits of a weight on its way to a forward pass; less than 16 costs passes over memory at both ends."""
    reduce_bits: Literal[4, 8, 16, 32] | None = None
    """Bits of a gradient on its way; absent: as the framework reduces."""


class Overlap(Spec):
    """Communication that runs next to computation. Absent means the framework's default."""

    tp: Annotated[
        bool | None,
        Switch(
            framework_default="overlap_tp",
            resolved_as="overlap_tp",
            axis="policy",
            ignored_when=tp_is_1,
            assumed=Assumed(origin="as {framework}", when=lambda x: x.tp > 1),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """Exchanges of tensor parallelism beside products."""
    p2p: Annotated[
        bool | None,
        Switch(
            framework_default="overlap_p2p",
            resolved_as="overlap_p2p",
            axis="policy",
            block_prices=False,
            ignored_when=pp_is_1,
            assumed=Assumed(origin="as {framework}", when=lambda x: x.pp > 1),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """Messages between pipeline stages beside computation."""
    moe_a2a: Annotated[
        bool | None,
        Switch(
            framework_default="overlap_moe_a2a",
            resolved_as="overlap_moe_a2a",
            axis="policy",
            ignored_when=no_experts,
            assumed=Assumed(origin="as {framework}", when=lambda x: x.ep > 1),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """Exchanges of tokens between experts beside computation."""
    fsdp_prefetch: Annotated[
        bool | None,
        Switch(
            framework_default="fsdp_prefetch",
            block_prices=False,
            ignored_when=not_fsdp,
            assumed=Assumed(origin="as {framework}", when=lambda x: x.zero == 3),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """Gathering the weights of the next layers ahead."""
    one_communicator: Annotated[
        bool | None,
        Switch(
            block_prices=False,
            ignored_when=not_fsdp,
            exported=Export(
                otherwise="overlap.one_communicator: the framework decides which communicator reduces shards"
            ),
        ),
    ] = None
    """ZeRO-3: gathers and reductions of shards go through one communicator and so one after the other, whatever their
    streams: the next layer's gather before this one's reduction. Absent: side by side."""
    grad_reduce: Annotated[
        bool | None,
        Switch(
            framework_default="overlap_grad_reduce",
            resolved_as="overlap_grad_reduce",
            axis="policy",
            block_prices=False,
            ignored_when=by_layer,
            assumed=Assumed(origin="as {framework}", when=lambda x: x.replicas > 1 and x.zero < 3),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """Reductions of gradients beside the backward pass."""
    param_gather: Annotated[
        bool | None,
        Switch(
            framework_default="overlap_param_gather",
            resolved_as="overlap_param_gather",
            axis="policy",
            block_prices=False,
            ignored_when=by_layer,
            assumed=Assumed(origin="as {framework}", when=lambda x: x.replicas > 1 and x.zero in (1, 2)),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """Gathering updated weights beside the forward pass."""


class CarriedSwitches(Spec):
    """Switches that a step reads as they are written: the resolved plan carries them whole, in `switches`.

    A switch that needs no decision (its absence means that the framework, the library or the model does as it does)
    stands here; one whose value follows from the rest of the plan is a field of `PlanSpec`, which has these too.
    """

    expert_nodes: Annotated[
        Count | None,
        Switch(
            ignored_when=first(
                no_experts,
                lambda x: (
                    None
                    if x.sends_once_per_node
                    else f"the dispatcher {x.dispatcher} sends a token once to each expert, however many share a node"
                ),
            ),
            exported=Export(otherwise="expert_nodes {value}: the model's router decides (group-limited top-k)"),
        ),
    ] = None
    """Most nodes that a token's experts lie on (node-limited routing); absent: no limit."""
    collective_library: Annotated[
        str | None, Switch(exported=Export(otherwise="collective_library {value}: the one that is installed runs"))
    ] = None
    """Library whose choice of algorithms is taken: nccl, nccl_nvls_off, nccl_2.18, nccl_2.12, rccl, oneccl, hccl,
    generic, or one laid over the vendor's: mscclpp (puts and signals), nvrar (small sums across nodes); absent: the
    vendor's own library."""
    collective_sms: Annotated[
        Count | None, Switch(exported=Export(otherwise="collective_sms {value}: NCCL_MAX_CTAS is left as it is"))
    ] = None
    """SMs that a collective holds at most, on every axis (`NCCL_MAX_CTAS`); the rest stays with kernels next to it. One
    moves no more than its part of the scale-up link's rate under the library's own number. Absent: that number."""
    ddp_bucket_size: Annotated[
        Count | None,
        Switch(
            block_prices=False,
            listed_when_absent=False,
            ignored_when=no_buckets,
            exported=Export(
                options={"megatron": "--ddp-bucket-size", "megatron_bridge": "ddp.bucket_size"},
                otherwise="ddp_bucket_size {value}: buckets have the program's own size",
                own_code=("deepspeed",),
            ),
        ),
    ] = None
    """Parameters whose gradients are reduced as one bucket, and whose weights are gathered as one (DDP, ZeRO-1 and
    ZeRO-2; `--ddp-bucket-size` of Megatron-LM counts alike; DeepSpeed's `reduce_bucket_size`, which takes memory under
    ZeRO-3 too). Absent: a model chunk has one bucket a layer, at most
    eight."""


class PlanSpec(CarriedSwitches):
    """Axis sizes and policies. `dp: auto` is devices / (tp·pp·cp)."""

    tp: Annotated[Count, Switch(axis="layout", free_search=True, exported=WRITTEN_BY_TARGETS)] = 1
    """Tensor parallelism: devices that share each layer's matrices."""
    sp: Annotated[
        bool | None,
        Switch(
            axis="policy",
            free_search=True,
            framework_default="sp",
            ignored_when=tp_is_1,
            assumed=Assumed(origin="as {framework}", when=lambda x: x.tp > 1),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """Sequence parallelism on the tensor axis; absent means on when tp > 1 (off for 2021 software)."""
    pp: Annotated[Count, Switch(axis="layout", free_search=True, block_prices=False, exported=WRITTEN_BY_TARGETS)] = 1
    """Pipeline parallelism: stages that the layers are cut into."""
    vpp: Annotated[Count, Switch(axis="layout", free_search=True, block_prices=False, exported=WRITTEN_BY_TARGETS)] = 1
    """Model chunks per pipeline stage."""
    cp: Annotated[Count, Switch(axis="layout", free_search=True, exported=WRITTEN_BY_TARGETS)] = 1
    """Context parallelism: devices that share each sequence."""
    cp_kind: Annotated[
        Literal["ring", "all_to_all", "hybrid", "all_gather", "token_ring"],
        Switch(axis="policy", ignored_when=cp_is_1, exported=WRITTEN_BY_TARGETS),
    ] = "ring"
    """How ranks of a sequence exchange: keys and values in a ring, heads by all-to-all, both, keys and values gathered,
    or queries ahead and partial outputs back (`token_ring`)."""
    sequence_groups: Annotated[
        Literal["fixed", "by_length", "solved", "zones"],
        Switch(
            ignored_when=lambda x: None if x.has_lengths else "training.lengths is absent: all sequences are alike",
            exported=Export(otherwise="sequence_groups {value}: groups of cp ranks for all", usual="fixed"),
        ),
    ] = "fixed"
    """Ranks of a sequence where lengths differ (`training.lengths`): always cp; as many as its length needs, work dealt
    to all dp · cp ranks; groups of the sizes that a linear programme finds for each micro-batch; or attention alone by
    length (rank, node, several nodes), with tokens moved between ranks for everything else."""
    cp_all_to_all: Annotated[
        Count,
        Switch(
            axis="policy",
            ignored_when=first(cp_is_1, lambda x: None if x.cp_kind == "hybrid" else "cp_kind is not hybrid"),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = 1
    """`hybrid`: size of the inner all-to-all axis; divides cp."""
    ep: Annotated[Count, Switch(axis="layout", free_search=True, exported=WRITTEN_BY_TARGETS)] = 1
    """Expert parallelism: devices that share the experts of a layer."""
    etp: Annotated[
        Count, Switch(axis="layout", free_search=True, ignored_when=no_experts, exported=WRITTEN_BY_TARGETS)
    ] = 1
    """Tensor parallelism of the experts."""
    expert_tokens: Annotated[
        Literal["split", "replicated", "dropped"],
        Switch(
            ignored_when=first(no_experts, tp_is_1),
            exported=Export(
                otherwise="expert_tokens {value}: tensor ranks send tokens as the program does", usual="split"
            ),
        ),
    ] = "split"
    """Tokens of ranks that share a layer (tp > 1) on their way to experts: each rank has its own part (`split`,
    sequence parallelism); all have the same ones and each sends them (`replicated`), or each sends its part and they
    are gathered again (`dropped`); the latter two need sp false and etp = tp."""
    dp: Annotated[
        Count | Literal["auto"], Switch(free_search=True, block_prices=False, exported=WRITTEN_BY_TARGETS)
    ] = "auto"
    """Data parallelism: replicas of the model; `auto` is what the devices leave."""
    zero: Annotated[
        int, Switch(axis="policy", block_prices=False, assumed=Assumed(origin="default"), exported=WRITTEN_BY_TARGETS)
    ] = Field(default=1, ge=0, le=3)
    """ZeRO stage: what replicas shard: 0 nothing, 1 optimizer, 2 gradients too, 3 parameters too. Absent: as the
    framework's release does, 1 where that is not known."""
    shard_group: Annotated[
        Count | None,
        Switch(
            axis="policy",
            free_search=True,
            block_prices=False,
            ignored_when=lambda x: None if x.zero else "zero is 0",
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """Ranks that a ZeRO/FSDP shard is spread over (HSDP); absent means dp·cp."""
    levels: Annotated[
        ShardLevels | None,
        Switch(
            block_prices=False,
            ignored_when=lambda x: None if x.shards_by_level else "nothing is sharded",
            exported=Export(otherwise="levels: tensors are sharded over the same ranks", own_code=("deepspeed",)),
        ),
    ] = None
    """ZeRO-3 over several levels of the network; absent: everything is cut over the shard group."""
    compression: Annotated[Compression, Switch(block_prices=False, exported=Export(otherwise=_sent_whole))] = (
        Compression()
    )
    """What travels compressed; absent: nothing."""
    local_steps: Annotated[
        LocalSteps | None,
        Switch(
            block_prices=False,
            exported=Export(
                otherwise=lambda value: (f"local_steps {value.steps}: gradients are reduced in every step",)
            ),
        ),
    ] = None
    """Gradients stay with their replica, and replicas are averaged once a round; absent: gradients are reduced."""
    reshard_after_forward: Annotated[
        bool | None, Switch(axis="policy", block_prices=False, ignored_when=not_fsdp, exported=WRITTEN_BY_TARGETS)
    ] = None
    """ZeRO-3: gather again for backward (absent: yes without a pipeline)."""
    join_branches: Annotated[bool | None, Switch(exported=NOT_LAUNCHED)] = None
    """Blocks whose attention and feed-forward network share a norm (`parallel_block`): one gather and one reduction of
    the tensor axis for both (absent: no)."""
    gathered_layers: Annotated[
        Count | None,
        Switch(
            block_prices=False,
            ignored_when=not_fsdp,
            exported=Export(otherwise="{value} gathered layers at a time", usual=2),
        ),
    ] = None
    """ZeRO-3: layers whose weights are whole at a time, each gathered while those before it run (absent: 2)."""
    gather_per_block: Annotated[
        bool | None,
        Switch(
            resolved_as="gather_block",
            block_prices=False,
            exported=Export(
                otherwise=lambda value: ("gather_per_block: parameters are gathered for each micro-batch",)
            ),
        ),
    ] = None
    """ZeRO-3 in a pipeline: gather a chunk once for the micro-batches that pass it one after the other, and reduce its
    gradients once for them (absent: no). Two gathered chunks are kept, one in each direction."""
    mbs: Annotated[
        Count, Switch(axis="layout", free_search=True, assumed=Assumed(origin="default"), exported=WRITTEN_BY_TARGETS)
    ] = 1
    """Micro-batch size: sequences of one micro-batch of a replica."""
    schedule: Annotated[
        str | None,
        Switch(
            axis="policy",
            free_search=True,
            block_prices=False,
            assumed=Assumed(origin="default for this vpp", when=lambda x: x.pp > 1),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """A schedule id (`windtunnel techniques list --family schedule`); absent: 1f1b, interleaved_1f1b when vpp > 1."""
    recompute: Annotated[
        Recompute,
        Switch(
            axis="policy",
            free_search=True,
            block_prices=False,
            assumed=Assumed(origin="default"),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = Recompute()
    """Activations that are computed again in the backward pass: `none`, `selective`, `full`, or modules. Absent: as
    the framework's release does for this model and device, `none` where that is not known."""
    offload: Annotated[Offload, Switch(axis="policy", block_prices=False, exported=WRITTEN_BY_TARGETS)] = Offload()
    """What is kept in host memory or on drives."""
    overlap: Annotated[Overlap, Switch(axis="policy", exported=WRITTEN_BY_TARGETS)] = Overlap()
    """Communication that runs next to computation."""
    stage_layers: Annotated[
        tuple[int, ...] | None,
        Switch(
            axis="policy",
            free_search=True,
            block_prices=False,
            assumed=Assumed(origin="even split", when=lambda x: x.pp > 1),
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = None
    """Layers of each virtual stage in model order (pp·vpp entries); absent: even, see `parallel.stages`."""
    embedding_as_layer: Annotated[
        bool | None, Switch(resolved_as="stage_layers", block_prices=False, exported=WRITTEN_BY_TARGETS)
    ] = None
    """Whether the embedding counts as a layer where layers are cut into stages."""
    loss_as_layer: Annotated[
        bool | None, Switch(resolved_as="stage_layers", block_prices=False, exported=WRITTEN_BY_TARGETS)
    ] = None
    """Count embedding / loss as one layer when splitting (Megatron `account_for_*_in_pipeline_split`)."""
    order: Annotated[tuple[Axis, ...], Switch(axis="policy", block_prices=False, exported=WRITTEN_BY_TARGETS)] = (
        "tp",
        "cp",
        "ep",
        "dp",
        "pp",
    )
    """Mesh axes, fastest varying (closest together) first."""

    collectives: Annotated[dict[str, str], Switch(exported=Export(otherwise=_algorithms))] = {}
    """Algorithm of a collective (`ring`, `tree`, `nvls` …) by `AXIS.OPERATION`, such as `tp.all_reduce`; AXIS `all`
    stands for every group. Absent: what the communication library chooses."""

    group_axis: Annotated[
        Literal["dp", "pp"],
        Switch(
            free_search=True,
            ignored_when=lambda x: None if x.heterogeneous else "the cluster has no groups of unlike devices",
            exported=WRITTEN_BY_TARGETS,
        ),
    ] = "dp"
    """On a cluster of unlike groups, the axis that crosses them: dp, every group runs whole replicas; pp, every group
    runs consecutive stages."""
    batch_shares: Annotated[
        tuple[Count, ...] | Literal["balanced"] | None,
        Switch(free_search=True, exported=WRITTEN_BY_TARGETS),
    ] = None
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
