"""One instance: how its axes cut the model, and in which formats weights and cache are kept."""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.cost.expert_load import ExpertLoad
from windtunnel.cost.expert_mesh import ExpertMesh
from windtunnel.errors import ProblemList, nearest_name
from windtunnel.graph import Kind, Operator
from windtunnel.network.algorithm_choice import SELECTORS
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.experts import ExpertLoadSpec, ExpertStorageSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingPlan, ServingPrecision
from windtunnel.specs.sparse_reads import SparseReadsSpec

CACHE_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0}


@dataclass(frozen=True, slots=True)
class Format:
    """How one class of weights is stored and multiplied."""

    name: str
    compute: str
    """Matrix rate that its products run at."""
    stored: str
    """Key of `expert_bytes_fraction`."""
    bytes_per_weight: float
    casts: bool
    """Whether activations are cast at run time."""

    @property
    def rate(self) -> str:
        """Key of `matrix_fraction` and `expert_matrix_fraction`.

        Products whose scales come in blocks add their sums to another register every 128 elements, and are other
        kernels (DeepGEMM, CUTLASS's grouped scales) than those with one scale a tensor.
        """
        return self.name if self.name == "fp8_block" and self.compute == "fp8" else self.compute

    @property
    def bytes_sent(self) -> float:
        """Bytes of an activation where it is cast before it is sent: with one scale a tensor (fp8) or a group of 16."""
        return 1.0 if self.name == "fp8" else 0.5 + 1.0 / 16 if self.name == "nvfp4" and self.casts else 2.0

    @property
    def bytes_dispatched(self) -> float:
        """Bytes of an activation on its way to an expert's rank: with fp8's scales in blocks of 128, nvfp4's of 16."""
        return (0.5 + 1.0 / 16 if self.name == "nvfp4" else 1.0 + 4.0 / 128) if self.casts else 2.0


_FORMATS = {
    "bf16": Format("bf16", "bf16", "bf16", 2.0, False),
    "fp16": Format("fp16", "fp16", "bf16", 2.0, False),
    "fp8": Format("fp8", "fp8", "fp8", 1.0, True),
    "fp8_block": Format("fp8_block", "fp8", "fp8", 1.0 + 4.0 / (128 * 128), True),
    "int8": Format("int8", "int8", "int8", 1.0, True),
    "w4a16": Format("w4a16", "bf16", "int4", 0.5 + 2.0 / 128, False),
    "w4a8": Format("w4a8", "fp8", "int4", 0.5 + 2.0 / 128, True),
    "nvfp4": Format("nvfp4", "fp4", "fp4", 0.5 + 1.0 / 16, True),
    "mxfp4": Format("mxfp4", "fp4", "fp4", 0.5 + 1.0 / 32, True),
    "q4_0": Format("q4_0", "bf16", "int4", 0.5 + 2.0 / 32, False),
}
"""Scales: one fp32 a 128 × 128 block, one 16-bit a group of 128 or of 32 (q4_0, the GGUF file's), one 8-bit a group of
16 (nvfp4) or 32 (mxfp4)."""
SIXTEEN = _FORMATS["bf16"]
ATTENTION_MODULES = frozenset({"qkv", "proj", "mla_up_proj"})
"""Modules of the linear layers of attention and of recurrent layers."""


def stored_bytes(weights: str) -> float:
    """Bytes of one weight in a format of `serving.precision.weights`, its scales included."""
    return _FORMATS[weights].bytes_per_weight


def format_of(weights: str, device: DeviceSpec) -> Format:
    """A weight format on a device; without matrix units for it the weights are unpacked to 16 bits (Marlin kernels).

    So they are where the units are slower than those of 16 bits: int8 on Blackwell Ultra.
    """
    found = _FORMATS[weights]
    known = device.peak_flop_per_s
    if found.compute == "fp8" and "fp8" not in known and "int8" in known and weights == "w4a8":
        return Format(found.name, "int8", found.stored, found.bytes_per_weight, found.casts)
    slower = found.compute not in known or known[found.compute] < known.get("bf16", 0.0)
    if slower and found.compute not in ("bf16", "fp16"):
        return Format(found.name, "bf16", found.stored, found.bytes_per_weight, False)
    return found


@dataclass(frozen=True, slots=True)
class ExpertLayout:
    """How a back end lays experts of 4 bits out in memory: what is padded, and what is kept twice."""

    inner: int = 1
    """Intermediate size of a rank's part of an expert is a multiple of this."""
    hidden: int = 1
    """Hidden size is a multiple of this."""
    scale_copies: float = 1.0
    """Copies of the scales: those of the checkpoint stay beside the swizzled ones of Triton's kernels."""
    bias_bytes: float = 2.0
    """Bytes of each bias."""
    source: str = ""

    def bytes_per_weight(self, fmt: Format, inner: float, hidden: float) -> float:
        """Bytes in memory for each weight of an expert whose part on a rank is `inner` by `hidden`."""
        if fmt.stored != "fp4" or inner <= 0:
            return fmt.bytes_per_weight
        padded = -(-inner // self.inner) * self.inner * (-(-hidden // self.hidden) * self.hidden) / (inner * hidden)
        return padded * (0.5 + self.scale_copies * (fmt.bytes_per_weight - 0.5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Axes and formats of one instance. Satisfies `parallel.tensor.Axes`."""

    tp: int
    pp: int
    dp: int
    ep: int
    etp: int
    linear: Format
    expert: Format
    cache_bytes: float
    """Bytes of one element of the cache."""
    attention: Format | None = None
    """Linear layers of attention and of recurrent layers; absent: as `linear`."""
    expert_layout: ExpertLayout = ExpertLayout()
    cp: int = 1
    dcp: int = 1
    """Ranks of the tensor axis that keep different tokens of what they would have copies of."""
    sp: bool = False
    vector_attention: bool = False
    """Whether decode attention takes each query head alone, without matrix units."""
    fused_casts: bool = False
    """Whether casts of activations before linear layers are part of the kernels before them."""
    narrow_prompts: bool = False
    """Whether attention of prompts is multiplied in 8 bits."""
    gathered: bool = False
    """Whether ranks that share experts gather all tokens and scatter sums, instead of two all-to-alls."""

    in_switch: bool = False
    """Whether sums over the tensor axis are made in the switch by a kernel of the engine."""
    balance_prompts: bool = False
    """Whether ranks of attention data parallelism cut attention of prompts by heads."""
    host_ahead: bool = False
    """Whether the host prepares the next batch while the device computes."""
    library: str | None = None
    """Communication library; absent: the vendor's."""
    experts: ExpertLoad | None = None
    """How unevenly experts are drawn; absent: evenly, but for `expert_skew`."""
    storage: ExpertStorageSpec | None = None
    """Where experts are read from that are not in memory."""
    ends: Format = SIXTEEN
    """Embedding and head."""
    sparse: SparseReadsSpec | None = None
    """What is skipped of feed-forward networks and the head; absent: nothing."""

    @property
    def ranks(self) -> int:
        """Devices of one pipeline stage."""
        return self.tp * self.dp * self.cp

    def format_of(self, op: Operator) -> Format:
        """Format of the weights of one operator; norms, routers, heads and embeddings stay in 16 bits."""
        if op.kind == Kind.GROUPED_GEMM:
            return self.expert
        if op.kind != Kind.GEMM or op.number_class != "linear":
            return SIXTEEN
        return self.attention or self.linear if op.module in ATTENTION_MODULES else self.linear


@dataclass(frozen=True, slots=True)
class WeightReads:
    """Parts of a serving section that say which weights an instance reads, and from where; absent: all from memory."""

    expert_load: ExpertLoadSpec | None = None
    """How unevenly experts are drawn."""
    expert_storage: ExpertStorageSpec | None = None
    """Drives that experts are read from."""
    sparse_reads: SparseReadsSpec | None = None
    """Rows of weights that are skipped."""


DENSE_READS = WeightReads()
"""All weights are read from memory, experts evenly."""


def shape_of(
    model: ModelSpec,
    cluster: ClusterSpec,
    plan: ServingPlan,
    precision: ServingPrecision,
    where: str,
    problems: ProblemList,
    reads: WeightReads = DENSE_READS,
) -> Shape:
    """Check a pool's plan against the model and the cluster, and make its shape.

    Args:
        model: what is served.
        cluster: group of the cluster that the pool is on.
        plan: axes of the pool.
        precision: formats of weights and cache.
        where: place of the plan in the scenario.
        problems: list that problems are added to, under `where`.
        reads: which weights are read, and from where.
    """
    device, load = cluster.device, reads.expert_load
    for heads in sorted(_head_counts(model)):
        if heads % plan.tp:
            rule = f"must divide num_attention_heads {heads} of {model.name}"
            problems.add(f"{where}.tp", plan.tp, rule)
    if plan.pp > len(model.layer_kinds()):
        problems.add(f"{where}.pp", plan.pp, f"must not exceed the {len(model.layer_kinds())} layers of {model.name}")
    ranks = plan.tp * plan.dp
    if plan.ep > 1 and not model.num_experts:
        problems.add(f"{where}.ep", plan.ep, f"must be 1: {model.name} has no experts")
    copies = load.num_redundant_experts if load else 0
    if plan.ep > 1 and model.num_experts and (ranks % plan.ep or (model.num_experts + copies) % plan.ep):
        beside = f" with {copies} redundant ones" if copies else ""
        rule = f"must divide tp · dp = {ranks} and num_experts {model.num_experts}{beside} of {model.name}"
        more = -(model.num_experts + copies) % plan.ep
        if more and not ranks % plan.ep:
            rule += f"; serving.expert_load.num_redundant_experts {copies + more} makes it divide"
        problems.add(f"{where}.ep", plan.ep, rule)
    if plan.num_devices > cluster.num_devices:
        rule = (
            f"tp · pp · dp · cp = {plan.num_devices} must not exceed the {cluster.num_devices} devices of the cluster"
        )
        problems.add(where, plan.num_devices, rule)
    if load and load.placement == "near" and plan.ep > 1 and _mesh(cluster, ranks if ranks == plan.ep else 0) is None:
        rule = "needs cluster.scale_out.topology mesh or torus with fabric, and ep = tp · dp = all devices: says where"
        problems.add("serving.expert_load.placement", load.placement, f"{rule} copies are near")
    up = NetworkCoefficients.for_cluster(cluster).up
    if plan.all_reduce == "in_switch" and not (up.switch_efficiency and plan.tp <= cluster.scale_up_domain):
        rule = f"must be auto: tp {plan.tp} over {cluster.scale_up.id} has no switch that reduces"
        problems.add(f"{where}.all_reduce", plan.all_reduce, rule)
    if plan.collective_library is not None and plan.collective_library not in SELECTORS:
        rule = f"no such library; known are {', '.join(SELECTORS)}"
        nearest = nearest_name(plan.collective_library, SELECTORS)
        problems.add(f"{where}.collective_library", plan.collective_library, rule, nearest=nearest)
    return Shape(
        tp=plan.tp,
        pp=plan.pp,
        dp=plan.dp,
        ep=plan.ep,
        etp=max(ranks // plan.ep, 1) if model.num_experts else 1,
        linear=format_of(precision.weights or "bf16", device),
        expert=format_of(precision.experts or precision.weights or "bf16", device),
        cache_bytes=CACHE_BYTES[precision.kv_cache],
        attention=None if precision.attention is None else format_of(precision.attention, device),
        cp=plan.cp,
        dcp=plan.dcp,
        in_switch=plan.all_reduce == "in_switch",
        balance_prompts=plan.balance_prompts,
        library=plan.collective_library,
        experts=_expert_load(load, cluster, ranks if ranks == plan.ep else 0) if model.num_experts else None,
        storage=reads.expert_storage if model.num_experts else None,
        ends=SIXTEEN if precision.ends is None else format_of(precision.ends, device),
        sparse=reads.sparse_reads,
    )


def _head_counts(model: ModelSpec) -> set[int]:
    """Query heads of attention, of every kind of layer."""
    own = {b.heads for layer in model.layers for b in layer.blocks if b.attends}
    return own or {model.num_attention_heads}


def _expert_load(load: ExpertLoadSpec | None, cluster: ClusterSpec, ranks: int) -> ExpertLoad | None:
    if load is None:
        return None
    mesh = _mesh(cluster, ranks)
    return ExpertLoad(
        popularity=load.popularity,
        redundant=load.num_redundant_experts,
        balanced=load.eplb,
        interval=load.step_interval,
        affinity=load.affinity,
        by_affinity=load.placement == "affinity",
        coherent=load.coherent,
        mesh=mesh,
        near=load.placement == "near" and mesh is not None,
    )


def _mesh(cluster: ClusterSpec, ranks: int) -> ExpertMesh | None:
    """Return the mesh of the domains of an instance whose expert ranks fill an explicit mesh or torus; else None."""
    out = cluster.scale_out
    if out.fabric is None or out.topology not in ("mesh", "torus") or ranks != cluster.num_devices:
        return None
    domains = max(cluster.num_devices // cluster.scale_up_domain, 1)
    return ExpertMesh(tuple(out.fabric.shape) or (domains,), out.topology == "torus") if domains > 1 else None
