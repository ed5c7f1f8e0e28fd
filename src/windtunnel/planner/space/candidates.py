"""Every legal plan of a search space, as arrays.

A candidate is a *layout* (axis sizes: what changes shapes and groups) with a *policy* (switches: what changes how they
are used). Layouts and policies are enumerated apart; a candidate is a cell of their grid, and a mask says which cells
are legal and not a repetition of another (sequence parallelism at tp 1, ZeRO without replicas, …).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np

from windtunnel import schedules
from windtunnel.arrays import Ints, Mask
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.machine_memory import require_bytes
from windtunnel.parallel.plan_sizes import MAX_INSTRUCTIONS, chosen_schedule
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import Offload, Overlap, PlanSpec, Recompute
from windtunnel.specs.search import SearchSpec, Space, is_balanced, recompute_of
from windtunnel.specs.switches import searched
from windtunnel.specs.workload import TrainingSpec
from windtunnel.stacks.defaults import scenario_defaults
from windtunnel.stacks.rules import Runnable

LAYOUT_AXES = ("tp", "cp", "pp", "vpp", "ep", "etp", "mbs")
OFFLOADS = searched(Offload)
_AXES = tuple(Space.model_fields)
_BYTES_A_LAYOUT = 600.0
"""A tuple of sizes, its row of the grid and columns of what is checked."""
OVERLAPS = tuple(sorted(searched(Overlap), key=lambda name: _AXES.index(f"overlap_{name}")))
"""Overlap switches that a search varies, in the order of the space's fields: the later ones vary fastest."""
_NOT_SEARCHED = tuple(name for name in Overlap.model_fields if name not in OVERLAPS)
"""Overlap switches that every candidate has as the plan writes them."""


V_SHAPED = "dualpipev"
"""Schedule that the default space of a model with experts has next to the framework's, where the framework's release
can run it: it hides exchanges of experts behind products of another micro-batch. Its two chunks a stage need not divide
the layers evenly."""
UNRULED = Runnable(framework="generic", release="", rules={})
"""Software of which nothing is known that it cannot run."""


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

    def of_rows(self, rows: Ints) -> Candidates:
        """Some of the layouts."""
        sizes = {name: getattr(self, name)[rows] for name in (*LAYOUT_AXES, "dp", "m")}
        return replace(self, **sizes, legal=self.legal[rows])

    def plan(self, layout: int, column: int) -> PlanSpec:
        """The plan of one cell of the grid.

        Where it is open, layers are split evenly and all recompute, until `search.close_open_plan` decides.
        """
        policy = self.policies[column]
        pinned = policy.stage_layers if isinstance(policy.stage_layers, tuple) else None
        return self.base.model_copy(
            update={
                **{name: int(getattr(self, name)[layout]) for name in LAYOUT_AXES},
                "dp": int(self.dp[layout]),
                "schedule": policy.schedule if self.pp[layout] > 1 else None,
                "recompute": policy.recompute,
                "zero": policy.zero,
                "shard_group": policy.shard_group,
                "sp": policy.sp if self.tp[layout] > 1 else None,
                "cp_kind": policy.cp_kind,
                "offload": policy.offload,
                "overlap": policy.overlap,
                "order": policy.order,
                "stage_layers": self.base.stage_layers if policy.stage_layers is None else pinned,
                "cp_all_to_all": policy.cp_all_to_all if self.cp[layout] > 1 else 1,
                "reshard_after_forward": policy.reshard_after_forward,
            }
        )


def divisors(n: int) -> list[int]:
    """All divisors, rising."""
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def chunk_counts(depth: int) -> list[int]:
    """Chunks a stage that are tried when nothing is stated: divisors of the layers, the ends counted or not."""
    return divisors(depth) if (depth + 2) % 2 else sorted({*divisors(depth), *divisors(depth + 2)})


def axis_of(space: Space, plan: PlanSpec, name: str, default: list[int]) -> list[int]:
    """Values of one axis: the space's, else the plan's own where it sets one, else all."""
    listed = getattr(space, name)
    if listed is not None:
        return sorted(set(listed))
    if name in plan.model_fields_set:
        return [getattr(plan, name)]
    return default


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What decides which plans are candidates."""

    model: ModelSpec
    devices: int
    training: TrainingSpec
    plan: PlanSpec
    """What all candidates share, and axes that are not searched."""
    space: Space
    """Listed values."""
    can: Runnable
    """What the framework's release can run: it cuts what is not listed."""


def _layouts(asked: _Asked, excluded: dict[str, int]) -> dict[str, Ints]:
    """Axis sizes, replicas and micro-batches that the model, the cluster and the batch allow, by name, (N,) each.

    Args:
        asked: model, devices, workload, plan and space.
        excluded: rule → combinations that it took out; added to.
    """
    sizes, devices, training = _axis_grid(asked), asked.devices, asked.training
    inner = sizes["tp"] * sizes["cp"] * sizes["pp"]
    sizes["dp"] = np.maximum(devices // inner, 1)
    sizes["m"] = training.global_batch // np.maximum(sizes["mbs"] * sizes["dp"], 1)
    return keep_legal(sizes, _layout_rules(sizes, asked), excluded)


def _axis_grid(asked: _Asked) -> dict[str, Ints]:
    """Every combination of axis sizes, by name of the axis."""
    model, devices, training, plan, space = asked.model, asked.devices, asked.training, asked.plan, asked.space
    of_devices, depth = divisors(devices), len(model.layer_kinds())
    heads, experts = model.num_attention_heads, model.num_experts
    chunks = {*chunk_counts(depth), *([2] if v_shaped(model, plan, space, asked.can) else [])}
    axes = {
        "tp": axis_of(space, plan, "tp", [d for d in of_devices if heads % d == 0]),
        "cp": axis_of(
            space,
            plan,
            "cp",
            [d for d in of_devices if d == 1 or (training.seq_len % (2 * d) == 0 and has_any("cp_kind", asked.can))],
        ),
        "pp": axis_of(
            space, plan, "pp", [d for d in of_devices if d == 1 or (d <= depth + 2 and has_any("schedule", asked.can))]
        ),
        "vpp": axis_of(space, plan, "vpp", sorted(chunks)),
        "ep": axis_of(space, plan, "ep", divisors(experts) if experts else [1]),
        "etp": axis_of(space, plan, "etp", [d for d in of_devices if heads % d == 0] if experts else [1]),
        "mbs": axis_of(space, plan, "mbs", divisors(training.global_batch)),
    }
    grid = axis_product(axes)
    if experts and space.etp is None and "etp" not in plan.model_fields_set:  # uncut experts, or cut as the rest
        grid = grid[(grid[:, 5] == 1) | (grid[:, 5] == grid[:, 0])]
    return dict(zip(LAYOUT_AXES, grid.T, strict=True))


def axis_product(axes: dict[str, list[int]]) -> Ints:
    """(N, 7): every combination of the values of all axes, in the order of `LAYOUT_AXES`."""
    count = prod(len(set(axes[name])) for name in LAYOUT_AXES)
    require_bytes(_BYTES_A_LAYOUT * count, "search.space", f"{count:,} combinations of {', '.join(LAYOUT_AXES)}")
    return np.array(list(product(*(sorted(set(axes[name])) for name in LAYOUT_AXES))), np.int64).reshape(-1, 7)


def has_any(entry: str, can: Runnable) -> bool:
    """Whether the framework's release can run anything of a kind, such as a schedule of pipelines."""
    return entry not in can.rules or bool(can.rules[entry].values)


def _layout_rules(sizes: dict[str, Ints], asked: _Asked) -> dict[str, Mask]:
    """Rule → layouts (N,) that keep to it."""
    model, devices, training, plan, space = asked.model, asked.devices, asked.training, asked.plan, asked.space
    tp, cp, pp, vpp, dp, m = (sizes[name] for name in ("tp", "cp", "pp", "vpp", "dp", "m"))
    depth, copies = len(model.layer_kinds()), _most_copies(plan, space)
    parts, everything = pp * vpp, np.ones(len(tp), np.bool_)
    fixed = plan.dp if plan.dp != "auto" else None
    return {
        "tp · cp · pp divides the devices": devices % (tp * cp * pp) == 0,
        "stage_layers has pp · vpp entries": everything if not plan.stage_layers else (parts == len(plan.stage_layers)),
        "dp is the one the plan sets": (dp == fixed) if fixed else everything,
        "mbs · dp divides the global batch": (training.global_batch % np.maximum(sizes["mbs"] * dp, 1) == 0) & (m >= 1),
        "tp divides the attention heads": model.num_attention_heads % tp == 0,
        "2 · cp divides the sequence": (cp == 1) | (training.seq_len % (2 * cp) == 0),
        "ep divides the experts, ep · etp the ranks": _experts_fit(sizes, model.num_experts),
        "pp · vpp fits the layers": (parts <= copies * (depth + 2)) & ((pp > 1) | (vpp == 1)),
        "layers divide over pp · vpp, the ends counted or not": (  # a split that the plan sets need not be even
            (vpp == 1)
            | bool(plan.stage_layers or space.stage_layers)
            | (depth % parts == 0)
            | ((depth + 2) % parts == 0)
            | ((vpp == 2) & v_shaped(model, plan, space, asked.can))
            | ((copies > 1) & ((copies * depth % parts == 0) | (copies * (depth + 2) % parts == 0)))
        ),
        f"at most {MAX_INSTRUCTIONS} instructions": m * pp * vpp <= MAX_INSTRUCTIONS,
    }


def _experts_fit(sizes: dict[str, Ints], experts: int) -> Mask:
    """Where experts can be cut over ep and etp."""
    tp, cp, dp, ep, etp = (sizes[name] for name in ("tp", "cp", "dp", "ep", "etp"))
    divides = np.ones(len(tp), np.bool_) if not experts else experts % ep == 0
    fits = divides & ((dp * cp * tp) % (ep * etp) == 0)
    return np.asarray(fits & ((experts > 0) | ((ep == 1) & (etp == 1))))


def keep_legal(sizes: dict[str, Ints], rules: dict[str, Mask], excluded: dict[str, int]) -> dict[str, Ints]:
    """Sizes of the layouts that keep to all rules; each rule counts what it takes out after those before it."""
    keep = np.ones(len(sizes["tp"]), np.bool_)
    for rule, ok in rules.items():
        if out := int((keep & ~ok).sum()):
            excluded[rule] = out
        keep &= ok
    return {name: column[keep] for name, column in sizes.items()}


def _most_copies(plan: PlanSpec, space: Space) -> int:
    """Copies of the model that a pipeline may hold."""
    named = space.schedule or ([plan.schedule] if plan.schedule else [])
    known = schedules.list_ids()
    return max((schedules.describe(name).copies for name in named if name in known), default=1)


def v_shaped(model: ModelSpec, plan: PlanSpec, space: Space, can: Runnable = UNRULED) -> bool:
    """Whether the default space has the V-shaped schedule: experts, and nothing said of schedules or splits.

    A framework has it where its rules list it.
    """
    if can.framework != "generic" and ("schedule" not in can.rules or not can.allows("schedule", V_SHAPED)):
        return False
    said = space.schedule or plan.schedule or plan.stage_layers or space.stage_layers
    pipelines = space.pp is None or max(space.pp) > 1
    return bool(model.num_experts and not said and pipelines and not (plan.pp == 1 and "pp" in plan.model_fields_set))


def overlapped_experts(model: ModelSpec, plan: PlanSpec, space: Space) -> bool:
    """Whether the default space has exchanges of experts next to computation as well."""
    return bool(model.num_experts and space.overlap_moe_a2a is None and "overlap" not in plan.model_fields_set)


def _some_modules(model: ModelSpec, behaviour: Behaviour, can: Runnable) -> tuple[Recompute, ...]:
    """Recomputation of cheap modules by name, where a model has experts and its framework knows them."""
    names = tuple(name for name in behaviour.recompute_modules if name != "mla_up_proj" or model.is_mla)
    names = can.kept("recompute_modules", names)
    return (Recompute(policy="modules", modules=names),) if model.num_experts and names else ()


def _policies(
    model: ModelSpec, plan: PlanSpec, space: Space, behaviour: Behaviour, cp: Ints, can: Runnable
) -> tuple[Policy, ...]:
    """Every choice of switches, each once.

    Args:
        model: what is trained.
        plan: what all candidates share, and switches that are not searched.
        space: listed values.
        behaviour: defaults of the framework.
        cp: (N,) sizes of cp in the space, which say how a hybrid exchange may be cut.
        can: what the framework's release can run.
    """

    def listed(name: str, given: Any, default: tuple[Any, ...]) -> tuple[Any, ...]:
        values = getattr(space, name)
        if values is not None:
            return tuple(values)
        return (given,) if name.split("_", maxsplit=1)[0] in plan.model_fields_set else default

    kept = {name: getattr(plan.overlap, name) for name in _NOT_SEARCHED}
    offloads = [listed(f"offload_{name}", getattr(plan.offload, name), (0.0,)) for name in OFFLOADS]
    either = {"moe_a2a": (None, True)} if overlapped_experts(model, plan, space) else {}
    overlaps = [listed(f"overlap_{name}", getattr(plan.overlap, name), either.get(name, (None,))) for name in OVERLAPS]
    schedules_tried = (None, V_SHAPED) if v_shaped(model, plan, space, can) else (None,)
    zero = (plan.zero,) if "zero" in plan.model_fields_set else _usual_stages(behaviour, can)
    switches: dict[str, Iterable[Any]] = {
        "schedule": space.schedule or ((plan.schedule,) if plan.schedule else schedules_tried),
        "recompute": listed(
            "recompute", plan.recompute, ("none", "selective", "full", *_some_modules(model, behaviour, can))
        ),
        "zero": space.zero or zero,
        "shard_group": [None if g == "all" else g for g in space.shard_group or (plan.shard_group,)],
        "sp": space.sp or (plan.sp,),
        "cp_kind": _context_exchanges(plan, space, cp, can),
        "offload": [
            plan.offload.model_copy(update=dict(zip(OFFLOADS, shares, strict=True))) for shares in product(*offloads)
        ],
        "overlap": [Overlap(**kept, **dict(zip(OVERLAPS, chosen, strict=True))) for chosen in product(*overlaps)],
        "order": space.order or (plan.order,),
        "stage_layers": space.stage_layers or (None,),
        "reshard_after_forward": space.reshard_after_forward or (plan.reshard_after_forward,),
    }
    choices = (dict(zip(switches, values, strict=True)) for values in product(*switches.values()))
    return tuple(dict.fromkeys(_policy(chosen) for chosen in choices))


def _usual_stages(behaviour: Behaviour, can: Runnable) -> tuple[int, ...]:
    """Stages of ZeRO that are tried where nobody names one: the framework's own; where it is 0, a sharded one too."""
    own = scenario_defaults("plan", can.framework, can.release).get("zero")
    sharded = (3,) if behaviour.param_bytes == 4.0 else (1,)
    stages = sharded if own is None else (int(own.value),) if own.value else (0, *sharded)
    return can.kept("zero", stages) or (0,)


def _context_exchanges(plan: PlanSpec, space: Space, cp: Ints, can: Runnable) -> list[tuple[str, int]]:
    """Kinds of context parallelism, a hybrid one with every size of its all-to-all."""
    inner: list[int] = list(space.cp_all_to_all or ())
    if not inner and "cp_all_to_all" not in plan.model_fields_set:
        inner = [d for d in divisors(int(np.lcm.reduce(np.append(cp, 1)))) if d > 1 and (cp % d == 0).any()]
    inner = inner or [plan.cp_all_to_all]
    usual: tuple[str, ...] = (plan.cp_kind,)
    if "cp_kind" not in plan.model_fields_set and has_any("cp_kind", can) and not can.allows("cp_kind", plan.cp_kind):
        usual = can.rules["cp_kind"].values
    return [(kind, size) for kind in space.cp_kind or usual for size in (inner if kind == "hybrid" else [1])]


def _policy(chosen: dict[str, Any]) -> Policy:
    """One choice of every switch; what sharding alone reads is dropped without it."""
    kind, all_to_all = chosen["cp_kind"]
    zero, recompute = chosen["zero"], chosen["recompute"]
    return Policy(
        schedule=chosen["schedule"],
        recompute=recompute_of(recompute),
        zero=zero,
        shard_group=chosen["shard_group"] if zero else None,
        sp=chosen["sp"],
        cp_kind=kind,
        offload=chosen["offload"],
        overlap=chosen["overlap"],
        order=chosen["order"],
        stage_layers=chosen["stage_layers"],
        balanced_recompute=is_balanced(recompute),
        cp_all_to_all=all_to_all,
        reshard_after_forward=chosen["reshard_after_forward"] if zero == 3 else None,
    )


class _LegalCells:
    """Which policies a layout can have, each distinct one once."""

    def __init__(
        self,
        sizes: dict[str, Ints],
        policies: tuple[Policy, ...],
        model: ModelSpec,
        behaviour: Behaviour,
        *,
        split: bool,
    ) -> None:
        """Nothing is evaluated yet.

        Args:
            sizes: Axis sizes, replicas and micro-batches of the layouts.
            policies: All of them; the first value of a switch counts where the switch does nothing.
            model: What is trained.
            behaviour: Defaults of the framework.
            split: Whether layers need not divide evenly.
        """
        self.sizes, self.policies, self.model, self.behaviour, self.split = sizes, policies, model, behaviour, split
        self.replicas = sizes["dp"] * sizes["cp"]
        shapes = np.stack([sizes["pp"], sizes["m"], sizes["vpp"]])
        self.shapes, self.shape_of = np.unique(shapes, axis=1, return_inverse=True)
        self.kinds = {policy.cp_kind for policy in policies}
        self.splits = [policy.stage_layers for policy in policies if not isinstance(policy.stage_layers, tuple)]
        self._runs: dict[str | None, Mask] = {}
        self._alike: dict[tuple[str, ...], Mask] = {}

    def mask(self, excluded: dict[str, int]) -> Mask:
        """(N, P): legal cells; what rules take out is added to `excluded`."""
        ok = np.ones((len(self.replicas), len(self.policies)), np.bool_)
        judged: dict[Hashable, tuple[Mask, dict[str, int]]] = {}
        for j, policy in enumerate(self.policies):
            asked = _legality_key(policy)
            if asked not in judged:
                judged[asked] = self._column(policy)
            ok[:, j], counts = judged[asked]
            for rule, out in counts.items():
                excluded[rule] = excluded.get(rule, 0) + out
        return ok

    def _column(self, policy: Policy) -> tuple[Mask, dict[str, int]]:
        """(N,): layouts that can have a policy; and rule → layouts that it takes out."""
        sizes, counts = self.sizes, dict[str, int]()
        cp, pp, vpp = sizes["cp"], sizes["pp"], sizes["vpp"]
        column = np.ones(len(pp), np.bool_)
        column &= _splits(policy, pp, vpp, self.model, self.splits)
        for when, plain in _idle(policy, sizes["tp"], cp, pp, self.replicas, self.policies):
            column &= ~(when & plain)
        if policy.order not in self._alike:
            mesh = {name: sizes[name] for name in ("tp", "cp", "pp", "dp")}
            self._alike[policy.order] = _same_mesh(policy.order, list(self._alike), mesh)
        column &= ~self._alike[policy.order]
        hybrid = np.where(cp > 1, policy.cp_all_to_all, 1)
        exchanged = {"all_to_all": cp, "hybrid": hybrid}.get(policy.cp_kind, np.ones_like(cp))
        if policy.cp_kind == "hybrid" and "all_to_all" in self.kinds:
            column &= (cp == 1) | (exchanged < cp)  # the whole axis is all_to_all
        for rule, keeps in self._rules(policy, exchanged).items():
            if out := int((column & ~keeps).sum()):
                counts[rule] = out
            column &= keeps
        return column, counts

    def _rules(self, policy: Policy, exchanged: Ints) -> dict[str, Mask]:
        """Rule → layouts that keep to it.

        Args:
            policy: the switches.
            exchanged: (N,) ranks of cp that exchange heads by all-to-all.
        """
        sizes = self.sizes
        tp, cp, pp, parts = sizes["tp"], sizes["cp"], sizes["pp"], sizes["pp"] * sizes["vpp"]
        fits = _whole(policy, pp, sizes["vpp"], self.model, split=self.split)
        heads = self.model.num_attention_heads
        rules: dict[str, Mask] = {
            "the schedule can run pp, vpp and the micro-batches": self._schedule_runs(policy.schedule) | (pp == 1),
            "the layers fit and divide over the parts of a copy of the model": fits,
            "cp_all_to_all divides cp": cp % exchanged == 0,
            "tp · all-to-all size of cp divides the attention heads": heads % (tp * exchanged) == 0,
        }
        if group := policy.shard_group:
            rules["shard_group divides dp · cp and is smaller"] = (self.replicas % group == 0) & (group < self.replicas)
        if isinstance(policy.recompute.num_layers, tuple):
            listed = len(policy.recompute.num_layers)
            rules["recomputed layers are counted by stage or virtual stage, of a split that is not balanced"] = (
                (listed == 1) | (pp == listed) | (parts == listed)
            ) & (policy.stage_layers != "balanced")
        return rules

    def _schedule_runs(self, schedule: str | None) -> Mask:
        """(N,): layouts whose shape a schedule can run."""
        if schedule not in self._runs:
            shapes = self.shapes.T
            runs = [_schedule_runs(schedule, int(p), int(m), int(v), self.behaviour) for p, m, v in shapes]
            self._runs[schedule] = np.array(runs, np.bool_)
        return np.asarray(self._runs[schedule][self.shape_of.reshape(-1)])


def _legality_key(policy: Policy) -> Hashable:
    """Every field that decides where a policy is legal; recomputation and offloading are legal everywhere."""
    return (
        policy.schedule,
        policy.zero,
        policy.shard_group,
        policy.sp,
        policy.cp_kind,
        policy.cp_all_to_all,
        policy.overlap,
        policy.order,
        policy.stage_layers,
        policy.is_open,
        policy.reshard_after_forward,
        policy.recompute.num_layers if isinstance(policy.recompute.num_layers, tuple) else None,
    )


def _whole(policy: Policy, pp: Ints, vpp: Ints, model: ModelSpec, *, split: bool) -> Mask:
    """Where layouts that fit several copies of a model fit as many as this policy has."""
    copies = schedules.describe(policy.schedule).copies if policy.schedule else 1
    depth, parts = len(model.layer_kinds()), np.maximum(pp * vpp // copies, 1)
    uneven = split or policy.schedule == V_SHAPED
    divides = (vpp == 1) | (depth % parts == 0) | ((depth + 2) % parts == 0) | uneven
    return np.asarray((pp == 1) | ((parts <= depth + 2) & divides))


def _splits(policy: Policy, pp: Ints, vpp: Ints, model: ModelSpec, named: list[str | None]) -> Mask:
    """Where a policy's split belongs: written-out ones to their number of virtual stages, others once without any."""
    if isinstance(policy.stage_layers, tuple):
        fits = sum(policy.stage_layers) == len(model.layer_kinds())
        return np.asarray((pp * vpp == len(policy.stage_layers)) & fits)
    depth = len(model.layer_kinds())
    divides = (vpp == 1) | (depth % (pp * vpp) == 0) | ((depth + 2) % (pp * vpp) == 0)
    column = (pp > 1) | (policy.stage_layers == named[0])
    if policy.stage_layers == "balanced":
        return np.asarray(column & (pp * vpp <= np.where(vpp > 1, depth, depth + 2)))
    return np.asarray(column & (divides | (policy.stage_layers is None)))  # what the plan says need not divide


def _idle(
    policy: Policy, tp: Ints, cp: Ints, pp: Ints, replicas: Ints, policies: tuple[Policy, ...]
) -> list[tuple[Mask, bool]]:
    """Where a switch does nothing, only its first value counts: (layouts, whether this policy has another value)."""

    def other(name: str, part: str = "") -> bool:
        def value(p: Policy) -> Any:
            found = getattr(p, name)
            return getattr(found, part) if part else found

        return bool(value(policy) != value(policies[0]))

    alone = replicas == 1
    whole = np.full(len(tp), policy.zero not in (1, 2))  # parameters are gathered in buckets under ZeRO-1 and 2 alone
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


def _exchanges_overlap(sizes: dict[str, Ints], policies: tuple[Policy, ...]) -> Mask:
    """(N, P): where exchanges of experts are as the framework does, or can run next to computation.

    Source: Megatron-LM, `megatron/training/arguments.py`: `--overlap-moe-expert-parallel-comm` takes expert
    parallelism, an interleaved pipeline or none, and no recomputation of whole layers. Paired schedules do it by
    themselves.
    """
    can = (sizes["ep"] > 1) & ((sizes["pp"] == 1) | (sizes["vpp"] > 1))
    columns = [
        can & (policy.recompute.policy != "full") & (policy.schedule is None)
        if policy.overlap.moe_a2a
        else np.ones(len(can), np.bool_)
        for policy in policies
    ]
    return np.stack(columns, axis=1)


def _schedule_runs(schedule: str | None, p: int, m: int, v: int, behaviour: Behaviour) -> bool:
    return schedules.describe(chosen_schedule(schedule, v, behaviour)).check(p, m, v) is None


def enumerate_candidates(
    model: ModelSpec,
    cluster: ClusterSpec,
    training: TrainingSpec,
    plan: PlanSpec,
    search: SearchSpec,
    behaviour: Behaviour,
    can: Runnable = UNRULED,
) -> Candidates:
    """All legal plans of a scenario's search space on one cluster.

    Args:
        model: what is trained.
        cluster: where.
        training: how.
        plan: what all candidates share, and switches that are not searched.
        search: with the space.
        behaviour: defaults of the framework.
        can: what its release can run; it cuts what the space does not list.
    """
    excluded: dict[str, int] = {}
    asked = _Asked(model=model, devices=cluster.num_devices, training=training, plan=plan, space=search.space, can=can)
    return with_policies(_layouts(asked, excluded), model, plan, search, behaviour, excluded, can)


def with_policies(
    sizes: dict[str, Ints],
    model: ModelSpec,
    plan: PlanSpec,
    search: SearchSpec,
    behaviour: Behaviour,
    excluded: dict[str, int],
    can: Runnable = UNRULED,
) -> Candidates:
    """Layouts with every choice of switches that they can have."""
    policies = _policies(model, plan, search.space, behaviour, sizes["cp"], can)
    split = bool(plan.stage_layers or search.space.stage_layers)
    legal = _LegalCells(sizes, policies, model, behaviour, split=split).mask(excluded)
    if overlapped_experts(model, plan, search.space):
        keep = _exchanges_overlap(sizes, policies)
        if out := int((legal & ~keep).sum()):
            excluded["exchanges of experts overlap where pipelines interleave and layers are not recomputed whole"] = (
                out
            )
        legal &= keep
    if "zero_in_pipelines" in can.rules and not search.space.zero and "zero" not in plan.model_fields_set:
        whole = np.array([can.allows("zero_in_pipelines", policy.zero) for policy in policies])
        legal &= (sizes["pp"] == 1)[:, None] | whole[None, :]
    return Candidates(**sizes, policies=policies, legal=legal, base=plan, excluded=excluded)
