"""Every legal plan of a search space, as arrays.

A candidate is a *layout* (axis sizes: what changes shapes and groups) with a *policy* (switches: what changes how they
are used). Layouts and policies are enumerated apart; a candidate is a cell of their grid, and a mask says which cells
are legal and not a repetition of another (sequence parallelism at tp 1, ZeRO without replicas, …).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np

from windtunnel import schedules
from windtunnel.arrays import Ints, Mask
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.parallel.plan_sizes import MAX_INSTRUCTIONS, chosen_schedule
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import Offload, Overlap, PlanSpec, Recompute
from windtunnel.specs.search import SearchSpec, Space, is_balanced, recompute_of
from windtunnel.specs.switches import searched
from windtunnel.specs.workload import TrainingSpec

LAYOUT_AXES = ("tp", "cp", "pp", "vpp", "ep", "etp", "mbs")
OFFLOADS = searched(Offload)
OVERLAPS = searched(Overlap)
_NOT_SEARCHED = tuple(name for name in Overlap.model_fields if name not in OVERLAPS)
"""Overlap switches that every candidate has as the plan writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One choice of every switch. None leaves a switch to the framework."""

    schedule: str | None
    recompute: Recompute
    zero: int
    shard_group: int | None
    sp: bool | None
    cp_kind: str
    offload: Offload
    overlap: Overlap
    order: tuple[str, ...]
    stage_layers: str | tuple[int, ...] | None = None
    """`even`, `balanced` or written out; None: what the plan says."""
    balanced_recompute: bool = False
    """Whether each stage recomputes as many layers as memory asks for."""
    cp_all_to_all: int = 1
    reshard_after_forward: bool | None = None

    @property
    def is_open(self) -> bool:
        """Whether the partition decides something about it."""
        return self.stage_layers == "balanced" or self.balanced_recompute


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The grid of layouts (N,) and policies (P,) on one cluster, and which of its cells count."""

    tp: Ints
    cp: Ints
    pp: Ints
    vpp: Ints
    ep: Ints
    etp: Ints
    mbs: Ints
    dp: Ints
    m: Ints
    policies: tuple[Policy, ...]
    legal: Mask
    """(N, P)."""
    base: PlanSpec
    excluded: dict[str, int] = field(default_factory=dict)
    """Rule → combinations that it took out: of axis sizes, or of axis sizes and switches."""

    @cached_property
    def count(self) -> int:
        """Candidates."""
        return int(self.legal.sum())

    def sizes(self, layout: int) -> tuple[int, ...]:
        """Axis sizes, replicas and micro-batches of a layout."""
        return tuple(int(getattr(self, name)[layout]) for name in (*LAYOUT_AXES, "dp", "m"))

    def plan(self, layout: int, policy: int) -> PlanSpec:
        """The plan of one cell; until the partition decides (`planner.concrete`) even, with all layers recomputing."""
        q = self.policies[policy]
        pinned = q.stage_layers if isinstance(q.stage_layers, tuple) else None
        return self.base.model_copy(
            update={
                **{name: int(getattr(self, name)[layout]) for name in LAYOUT_AXES},
                "dp": int(self.dp[layout]),
                "schedule": q.schedule if self.pp[layout] > 1 else None,
                "recompute": q.recompute,
                "zero": q.zero,
                "shard_group": q.shard_group,
                "sp": q.sp if self.tp[layout] > 1 else None,
                "cp_kind": q.cp_kind,
                "offload": q.offload,
                "overlap": q.overlap,
                "order": q.order,
                "stage_layers": self.base.stage_layers if q.stage_layers is None else pinned,
                "cp_all_to_all": q.cp_all_to_all if self.cp[layout] > 1 else 1,
                "reshard_after_forward": q.reshard_after_forward,
            }
        )


def divisors(n: int) -> list[int]:
    """All divisors, rising."""
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def chunk_counts(depth: int) -> list[int]:
    """Chunks a stage that are tried when nothing is said: divisors of the layers, the ends counted or not."""
    return divisors(depth) if (depth + 2) % 2 else sorted({*divisors(depth), *divisors(depth + 2)})


def axis_of(space: Space, plan: PlanSpec, name: str, default: list[int]) -> list[int]:
    """Values of one axis: the space's, else the plan's own where it sets one, else all."""
    listed = getattr(space, name)
    if listed is not None:
        return sorted(set(listed))
    if name in plan.model_fields_set:
        return [getattr(plan, name)]
    return default


def _layouts(
    model: ModelSpec, devices: int, training: TrainingSpec, plan: PlanSpec, space: Space, excluded: dict[str, int]
) -> dict[str, Ints]:
    """Axis sizes that the model, the cluster and the batch allow."""
    of_devices = divisors(devices)
    depth, copies = len(model.layer_kinds()), _most_copies(plan, space)
    heads, experts, batch = model.num_attention_heads, model.num_experts, training.global_batch
    axes = {
        "tp": axis_of(space, plan, "tp", [d for d in of_devices if heads % d == 0]),
        "cp": axis_of(space, plan, "cp", [d for d in of_devices if d == 1 or training.seq_len % (2 * d) == 0]),
        "pp": axis_of(space, plan, "pp", [d for d in of_devices if d <= depth + 2]),
        "vpp": axis_of(space, plan, "vpp", chunk_counts(depth)),
        "ep": axis_of(space, plan, "ep", divisors(experts) if experts else [1]),
        "etp": axis_of(space, plan, "etp", [d for d in of_devices if heads % d == 0] if experts else [1]),
        "mbs": axis_of(space, plan, "mbs", divisors(batch)),
    }
    grid = np.array(list(product(*(sorted(set(axes[name])) for name in LAYOUT_AXES))), np.int64).reshape(-1, 7)
    if experts and space.etp is None and "etp" not in plan.model_fields_set:  # uncut experts, or cut as the rest
        grid = grid[(grid[:, 5] == 1) | (grid[:, 5] == grid[:, 0])]
    tp, cp, pp, vpp, ep, etp, mbs = grid.T
    inner = tp * cp * pp
    dp = np.maximum(devices // inner, 1)
    m = batch // np.maximum(mbs * dp, 1)
    fixed = plan.dp if plan.dp != "auto" else None
    rules: dict[str, Mask] = {
        "tp · cp · pp divides the devices": devices % inner == 0,
        "stage_layers has pp · vpp entries": np.full(len(tp), True)
        if not plan.stage_layers
        else (pp * vpp == len(plan.stage_layers)),
        "dp is the one the plan sets": (dp == fixed) if fixed else np.ones(len(tp), np.bool_),
        "mbs · dp divides the global batch": (batch % np.maximum(mbs * dp, 1) == 0) & (m >= 1),
        "tp divides the attention heads": heads % tp == 0,
        "2 · cp divides the sequence": (cp == 1) | (training.seq_len % (2 * cp) == 0),
        "ep divides the experts, ep · etp the ranks": (
            (np.ones(len(tp), np.bool_) if not experts else experts % ep == 0)
            & ((dp * cp * tp) % (ep * etp) == 0)
            & ((experts > 0) | ((ep == 1) & (etp == 1)))
        ),
        "pp · vpp fits the layers": (pp * vpp <= copies * (depth + 2)) & ((pp > 1) | (vpp == 1)),
        "layers divide over pp · vpp, the ends counted or not": (  # a split that the plan sets need not be even
            (vpp == 1)
            | bool(plan.stage_layers or space.stage_layers)
            | (depth % (pp * vpp) == 0)
            | ((depth + 2) % (pp * vpp) == 0)
            | ((copies > 1) & ((copies * depth % (pp * vpp) == 0) | (copies * (depth + 2) % (pp * vpp) == 0)))
        ),
        f"at most {MAX_INSTRUCTIONS} instructions": m * pp * vpp <= MAX_INSTRUCTIONS,
    }
    keep = np.ones(len(tp), np.bool_)
    for rule, ok in rules.items():
        if out := int((keep & ~ok).sum()):
            excluded[rule] = out
        keep &= ok
    found = {name: column[keep] for name, column in zip(LAYOUT_AXES, grid.T, strict=True)}
    return {**found, "dp": dp[keep], "m": m[keep]}


def _most_copies(plan: PlanSpec, space: Space) -> int:
    """Copies of the model that a pipeline may hold."""
    named = space.schedule or ([plan.schedule] if plan.schedule else [])
    known = schedules.list_ids()
    return max((schedules.describe(name).copies for name in named if name in known), default=1)


def _policies(plan: PlanSpec, space: Space, behaviour: Behaviour, cp: Ints) -> tuple[Policy, ...]:
    """Every choice of switches, each once. `cp` says how a hybrid exchange may be cut."""

    def listed(name: str, given: Any, default: tuple[Any, ...]) -> tuple[Any, ...]:
        values = getattr(space, name)
        if values is not None:
            return tuple(values)
        return (given,) if name.split("_", maxsplit=1)[0] in plan.model_fields_set else default

    recompute = listed("recompute", plan.recompute, ("none", "selective", "full"))
    offloads = [listed(f"offload_{name}", getattr(plan.offload, name), (0.0,)) for name in OFFLOADS]
    overlaps = [listed(f"overlap_{name}", getattr(plan.overlap, name), (None,)) for name in OVERLAPS]
    sharding = "zero" in plan.model_fields_set
    zero = space.zero or ((plan.zero,) if sharding else (3,) if behaviour.param_bytes == 4.0 else (1,))
    schedule = space.schedule or ((plan.schedule,) if plan.schedule else (None,))
    inner: list[int] = list(space.cp_all_to_all or ())
    if not inner and "cp_all_to_all" not in plan.model_fields_set:
        inner = [d for d in divisors(int(np.lcm.reduce(np.append(cp, 1)))) if d > 1 and (cp % d == 0).any()]
    inner = inner or [plan.cp_all_to_all]
    cp_kind = [
        (kind, size) for kind in space.cp_kind or (plan.cp_kind,) for size in (inner if kind == "hybrid" else [1])
    ]
    reshard = space.reshard_after_forward or (plan.reshard_after_forward,)
    groups = [None if g == "all" else g for g in space.shard_group or (plan.shard_group,)]
    sp = space.sp or (plan.sp,)
    out = []
    for s, r, z, g, q, (c, size), o, v, order, split, again in product(
        schedule,
        recompute,
        zero,
        groups,
        sp,
        cp_kind,
        product(*offloads),
        product(*overlaps),
        space.order or (plan.order,),
        space.stage_layers or (None,),
        reshard,
    ):
        offload = plan.offload.model_copy(update=dict(zip(OFFLOADS, o, strict=True)))
        kept = {name: getattr(plan.overlap, name) for name in _NOT_SEARCHED}
        overlap = Overlap(**kept, **dict(zip(OVERLAPS, v, strict=True)))
        how, free = recompute_of(r), is_balanced(r)
        again = again if z == 3 else None
        group = g if z else None
        out.append(
            Policy(
                schedule=s,
                recompute=how,
                zero=z,
                shard_group=group,
                sp=q,
                cp_kind=c,
                offload=offload,
                overlap=overlap,
                order=order,
                stage_layers=split,
                balanced_recompute=free,
                cp_all_to_all=size,
                reshard_after_forward=again,
            )
        )
    return tuple(dict.fromkeys(out))


def _legal(
    x: dict[str, Ints],
    policies: tuple[Policy, ...],
    model: ModelSpec,
    behaviour: Behaviour,
    excluded: dict[str, int],
    *,
    split: bool,
) -> Mask:
    """Which policies a layout can have, each distinct one once. `split`: whether layers need not divide evenly."""
    tp, cp, pp, vpp, dp, m = x["tp"], x["cp"], x["pp"], x["vpp"], x["dp"], x["m"]
    n = len(tp)
    ok = np.ones((n, len(policies)), np.bool_)
    shapes, of = np.unique(np.stack([pp, m, vpp]), axis=1, return_inverse=True)
    replicas = dp * cp
    kinds = {q.cp_kind for q in policies}
    checks: dict[str | None, Mask] = {}
    alike: dict[tuple[str, ...], Mask] = {}
    splits = [p.stage_layers for p in policies if not isinstance(p.stage_layers, tuple)]
    judged: dict[Hashable, tuple[Mask, dict[str, int]]] = {}
    for j, q in enumerate(policies):
        asked = (
            q.schedule,
            q.zero,
            q.shard_group,
            q.sp,
            q.cp_kind,
            q.cp_all_to_all,
            q.overlap,
            q.order,
            q.stage_layers,
            q.is_open,
            q.reshard_after_forward,
            q.recompute.num_layers if isinstance(q.recompute.num_layers, tuple) else None,
        )
        if asked in judged:  # recomputation and offloading are legal everywhere
            ok[:, j], counts = judged[asked]
            for rule, out in counts.items():
                excluded[rule] = excluded.get(rule, 0) + out
            continue
        counts = {}
        if q.schedule not in checks:
            runs = [_schedule_runs(q.schedule, int(p), int(mb), int(v), behaviour) for p, mb, v in shapes.T]
            checks[q.schedule] = np.array(runs, np.bool_)
        column = np.ones(n, np.bool_)
        column &= _splits(q, pp, vpp, model, splits)
        for when, plain in _idle(q, tp, cp, pp, replicas, policies):
            column &= ~(when & plain)
        if q.order not in alike:
            alike[q.order] = _same_mesh(q.order, list(alike), {"tp": tp, "cp": cp, "pp": pp, "dp": dp})
        column &= ~alike[q.order]
        size = {"all_to_all": cp, "hybrid": np.where(cp > 1, q.cp_all_to_all, 1)}.get(q.cp_kind, np.ones_like(cp))
        if q.cp_kind == "hybrid" and "all_to_all" in kinds:
            column &= (cp == 1) | (size < cp)  # the whole axis is all_to_all
        rules: dict[str, Mask] = {
            "the schedule can run pp, vpp and the micro-batches": checks[q.schedule][of.reshape(-1)] | (pp == 1),
            "the layers fit and divide over the parts of a copy of the model": _whole(q, pp, vpp, model, split=split),
            "cp_all_to_all divides cp": cp % size == 0,
            "tp · all-to-all size of cp divides the attention heads": model.num_attention_heads % (tp * size) == 0,
        }
        if q.shard_group:
            rules["shard_group divides dp · cp and is smaller"] = (replicas % q.shard_group == 0) & (
                q.shard_group < replicas
            )
        if isinstance(q.recompute.num_layers, tuple):
            listed = len(q.recompute.num_layers)
            rules["recomputed layers are counted by stage or virtual stage, of a split that is not balanced"] = (
                (listed == 1) | (pp == listed) | (pp * vpp == listed)
            ) & (q.stage_layers != "balanced")
        for rule, runs_so in rules.items():
            if out := int((column & ~runs_so).sum()):
                excluded[rule] = excluded.get(rule, 0) + out
                counts[rule] = out
            column &= runs_so
        ok[:, j] = column
        judged[asked] = column, counts
    return ok


def _whole(q: Policy, pp: Ints, vpp: Ints, model: ModelSpec, *, split: bool) -> Mask:
    """Where layouts that fit several copies of a model fit as many as this policy has."""
    copies = schedules.describe(q.schedule).copies if q.schedule else 1
    depth, parts = len(model.layer_kinds()), np.maximum(pp * vpp // copies, 1)
    divides = (vpp == 1) | (depth % parts == 0) | ((depth + 2) % parts == 0) | split
    return np.asarray((pp == 1) | ((parts <= depth + 2) & divides))


def _splits(q: Policy, pp: Ints, vpp: Ints, model: ModelSpec, named: list[str | None]) -> Mask:
    """Where a policy's split belongs: written-out ones to their number of virtual stages, others once without any."""
    if isinstance(q.stage_layers, tuple):
        fits = sum(q.stage_layers) == len(model.layer_kinds())
        return np.asarray((pp * vpp == len(q.stage_layers)) & fits)
    depth = len(model.layer_kinds())
    divides = (vpp == 1) | (depth % (pp * vpp) == 0) | ((depth + 2) % (pp * vpp) == 0)
    column = (pp > 1) | (q.stage_layers == named[0])
    if q.stage_layers == "balanced":
        return np.asarray(column & (pp * vpp <= np.where(vpp > 1, depth, depth + 2)))
    return np.asarray(column & (divides | (q.stage_layers is None)))  # what the plan says need not divide


def _idle(
    q: Policy, tp: Ints, cp: Ints, pp: Ints, replicas: Ints, policies: tuple[Policy, ...]
) -> list[tuple[Mask, bool]]:
    """Where a switch does nothing, only its first value counts: (layouts, whether this policy has another value)."""

    def other(name: str, part: str = "") -> bool:
        def value(p: Policy) -> Any:
            found = getattr(p, name)
            return getattr(found, part) if part else found

        return bool(value(q) != value(policies[0]))

    alone = replicas == 1
    whole = np.full(len(tp), q.zero not in (1, 2))  # parameters are gathered in buckets under ZeRO-1 and 2 alone
    return [
        (tp == 1, other("sp")),
        (cp == 1, other("cp_kind")),
        (pp == 1, other("schedule")),
        (alone, other("zero")),
        (alone, other("overlap", "grad_reduce")),
        (alone, other("overlap", "param_gather")),
        (tp == 1, other("overlap", "tp")),
        (pp == 1, other("overlap", "p2p")),
        (alone, other("shard_group")),
        (whole, other("overlap", "param_gather")),
        (cp == 1, other("cp_all_to_all")),
        (alone, other("reshard_after_forward")),
    ]


def _same_mesh(order: tuple[str, ...], earlier: list[tuple[str, ...]], sizes: dict[str, Ints]) -> Mask:
    """Layouts on which an earlier order lays the mesh alike: of two axes that it swaps, one has size 1."""
    out = np.zeros(len(sizes["tp"]), np.bool_)
    for other in earlier:
        same = np.ones(len(out), np.bool_)
        for a, b in combinations(sizes, 2):
            if (order.index(a) < order.index(b)) != (other.index(a) < other.index(b)):
                same &= (sizes[a] == 1) | (sizes[b] == 1)
        out |= same
    return out


def _schedule_runs(schedule: str | None, p: int, m: int, v: int, behaviour: Behaviour) -> bool:
    return schedules.describe(chosen_schedule(schedule, v, behaviour)).check(p, m, v) is None


def candidates(
    model: ModelSpec,
    cluster: ClusterSpec,
    training: TrainingSpec,
    plan: PlanSpec,
    search: SearchSpec,
    behaviour: Behaviour,
) -> Candidates:
    """All legal plans of a scenario's search space on one cluster."""
    excluded: dict[str, int] = {}
    x = _layouts(model, cluster.num_devices, training, plan, search.space, excluded)
    return with_policies(x, model, plan, search, behaviour, excluded)


def with_policies(
    x: dict[str, Ints],
    model: ModelSpec,
    plan: PlanSpec,
    search: SearchSpec,
    behaviour: Behaviour,
    excluded: dict[str, int],
) -> Candidates:
    """Layouts with every choice of switches that they can have."""
    policies = _policies(plan, search.space, behaviour, x["cp"])
    split = bool(plan.stage_layers or search.space.stage_layers)
    legal = _legal(x, policies, model, behaviour, excluded, split=split)
    return Candidates(**x, policies=policies, legal=legal, base=plan, excluded=excluded)
