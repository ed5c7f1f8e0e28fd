"""What the planner may choose from in a group: the plans that its software can run, the rows' own among them.

The space is wide but not endless, so that some hundreds of searches take minutes: tensor ranks stay in the scale-up
domain, a context rank keeps a stretch of its sequence, micro-batches go up to twice the rows'. Models with experts have
many more layouts, each with costs of its own: tensor and expert ranks stay near the rows'. Values that a row uses are
always in. What is not an axis (overlap, prefetch, how ends count as layers) is as the rows have it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel import catalog
from windtunnel.planner.space.candidates import divisors
from windtunnel.planner.space.unpinned_axes import uneven_split
from windtunnel.specs.plan import PlanSpec, Recompute
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.search import SearchSpec, recompute_of
from windtunnel_lab.planner_vs_published.groups import Group

LARGEST_TP = 16
TOKENS_PER_CONTEXT_RANK = 4096
LARGEST_MBS = 8
NEAR = 4
"""Models with experts: how many times the rows' expert ranks, or what part of them, are tried; tensor ranks and
micro-batches that are always tried."""
SEARCHED = (
    "tp",
    "pp",
    "vpp",
    "cp",
    "ep",
    "etp",
    "dp",
    "mbs",
    "zero",
    "shard_group",
    "sp",
    "cp_kind",
    "recompute",
    "schedule",
)
"""Fields of a row's plan that the search chooses anew; the others are kept."""
_PER_OP = Recompute(policy="modules", modules=("per_op",))


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a piece of training software lets its user choose."""

    axes: frozenset[str] = frozenset({"tp", "pp", "vpp", "cp", "ep"})
    zero: tuple[int, ...] = (0, 1)
    recompute: tuple[str | Recompute, ...] = ("none", "selective", "full:1", "full:2", "full:4", "full")
    any_mbs: bool = False
    """Whether all micro-batches are tried: there is no other axis to speak of."""
    even_stages: bool = False
    """Whether stages have equally many layers, the ends not counted."""


_EARLY = Abilities(frozenset({"tp", "pp", "vpp"}), (0,), ("none", "full"), even_stages=True)
_SHARDED = Abilities(frozenset(), (0, 2, 3), ("none", "full"), any_mbs=True)
_COMPILED = Abilities(frozenset({"tp", "cp", "ep"}), (3,), ("none", "full"))
ABILITIES: dict[str, Abilities] = {
    "megatron_2021": _EARLY,
    "megatron_2022": Abilities(frozenset({"tp", "pp", "vpp"}), even_stages=True),
    "megatron_deepspeed": Abilities(frozenset({"tp", "pp"}), (0, 1), ("none", "full"), even_stages=True),
    "fsdp1": _SHARDED,
    "torchtune": _SHARDED,
    "ddp": _SHARDED,
    "deepspeed": _SHARDED,
    "torchtitan": Abilities(zero=(3,), recompute=("none", _PER_OP, "full")),
    "jax": _COMPILED,
    "pax": _COMPILED,
    "t5x": _COMPILED,
}
"""Axes and switches of each framework's releases that the rows ran; absent: those of current Megatron."""


def space_of(group: Group, others: Sequence[Group] = ()) -> dict[str, Any]:
    """`search.space` of a group.

    Args:
        group: rows that share everything but their plan.
        others: groups that train the same model with the same software; their recomputation policies are tried too.
    """
    able = ABILITIES.get(group.training.framework, Abilities())
    plans = [s.plan for s in group.scenarios]
    mixture = bool(group.model.num_experts)
    space = _axes(group, able, plans)
    if not able.any_mbs:
        most_mbs = max(NEAR if mixture else LARGEST_MBS, *(2 * p.mbs for p in plans))
        batch = group.training.global_batch
        space["mbs"] = _with(plans, "mbs", {n for n in divisors(batch) if n <= most_mbs})
    space["zero"] = _with(plans, "zero", set(able.zero))
    if mixture and able is _COMPILED:  # its compiler cuts expert matrices over the tensor axis as well
        space["tp"] = _with(plans, "tp", set())
    for name in ("sp", "cp_kind", "shard_group", "schedule"):
        values = dict.fromkeys(getattr(p, name) for p in plans if getattr(p, name) is not None)
        if values:
            space[name] = ["all", *sorted(values)] if name == "shard_group" else sorted(values)
    alike = [s.plan for g in others if _one_release(g, group) for s in g.scenarios]
    policies = [recompute_of(r) for r in able.recompute]
    if mixture:
        policies = [r for r in policies if r.num_layers is None]
    space["recompute"] = _recompute(policies, plans, alike)
    for name in ("activations", "optimizer", "params"):
        shares = {getattr(p.offload, name) for p in plans}
        if shares != {0.0}:
            space[f"offload_{name}"] = sorted(shares | {0.0})
    return space


def _axes(group: Group, able: Abilities, plans: list[PlanSpec]) -> dict[str, Any]:
    """Values of the parallel axes: what the software can run within the limits of this module, and the rows' own."""
    cluster = catalog.resolve_cluster(group.scenarios[0].cluster)
    depth, seq_len = len(group.model.layer_kinds()), group.training.seq_len
    mixture = bool(group.model.num_experts)
    most_tp = max(NEAR, *(2 * p.tp for p in plans)) if mixture else LARGEST_TP
    allowed: dict[str, Callable[[int], bool]] = {
        "tp": lambda n: n <= min(most_tp, cluster.scale_up_domain),
        "cp": lambda n: n == 1 or seq_len // n >= TOKENS_PER_CONTEXT_RANK,
        "pp": lambda n: depth % n == 0 if able.even_stages else n <= depth + 2,
    }
    space: dict[str, Any] = {"etp": _with(plans, "etp", {1})}
    for axis in ("tp", "pp", "cp"):
        free = {n for n in divisors(cluster.num_devices) if allowed[axis](n)} if axis in able.axes else {1}
        space[axis] = _with(plans, axis, free)
    chunks = set(divisors(depth)) if able.even_stages else {*divisors(depth), *divisors(depth + 2)}
    space["vpp"] = _with(plans, "vpp", chunks if "vpp" in able.axes else {1})
    own = [p.ep for p in plans]
    near = [n for n in divisors(group.model.num_experts or 1) if min(own) <= NEAR * n and n <= NEAR * max(own)]
    space["ep"] = _with(plans, "ep", set(near) if mixture and "ep" in able.axes else {1})
    return space


def _with(plans: Iterable[PlanSpec], name: str, values: set[int]) -> list[int]:
    return sorted(values | {getattr(p, name) for p in plans})


def _one_release(a: Group, b: Group) -> bool:
    """Whether two groups of one framework store and reduce alike: old releases of it do so otherwise."""
    names = ("precision", "grad_reduce_precision", "master_weights")
    return all(getattr(a.training, name) == getattr(b.training, name) for name in names)


def _recompute(able: list[Recompute], own: list[PlanSpec], alike: list[PlanSpec]) -> list[Any]:
    """Policies of the software, of the rows, and of rows that train the same model elsewhere.

    How a checkpoint ends is the software's: `full` ends as in the rows.
    """
    used = [p.recompute for p in (*own, *alike)]
    ends = next((r.early_stop for r in used if r.early_stop is not None), None)
    policies = able + used
    policies = [r.model_copy(update={"early_stop": ends}) if r.policy == "full" else r for r in policies]
    if any(r.policy == "selective" for r in policies):  # the same by another name
        policies = [r for r in policies if r != Recompute(policy="modules", modules=("core_attn",))]
    policies += [p.recompute for p in own]
    texts = dict.fromkeys(r.model_dump_json(exclude_defaults=True) for r in policies)
    return [json.loads(text) or "none" for text in texts]


def searches(group: Group, others: Sequence[Group] = ()) -> list[Scenario]:
    """The scenarios to plan: one for each way in which the rows set what is not searched."""
    space = space_of(group, others)
    bases: dict[str, PlanSpec] = {}
    for scenario in group.scenarios:
        kept = {n: getattr(scenario.plan, n) for n in scenario.plan.model_fields_set - {*SEARCHED, "offload"}}
        if (split := uneven_split(scenario.plan, group.model)) is not None:
            kept["stage_layers"] = split
        tier = scenario.plan.offload.tier
        for base in [kept, {n: v for n, v in kept.items() if n != "stage_layers"}]:
            full = base if tier == "host" else {**base, "offload": {"tier": tier}}
            plan = PlanSpec.model_validate(full)
            bases.setdefault(plan.model_dump_json(), plan)
    first = group.scenarios[0]
    limits = {"memory_fraction": 1.0}  # the rows' own plans may fill the memory
    search = SearchSpec.model_validate({"space": space, "top": 1, "limits": limits})
    return [first.model_copy(update={"plan": plan, "search": search}) for plan in bases.values()]
