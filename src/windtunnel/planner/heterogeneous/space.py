"""Plans on a heterogeneous cluster: which axis crosses the groups, and how batch or layers are shared among them.

* Groups along dp: every tp · cp · pp that divides the devices of every group, and every way to give the groups'
  replicas whole micro-batches that make up the global batch.
* Groups along pp: every tp · cp · dp of a stage that divides the devices of every group, and every way to give the
  groups whole layers. Inside a group stages take as even a number as they can, those next to an end of the model the
  fewer, and the model's last stage, which also runs the head, up to `MOST_TRIMMED` layers less than its share; with
  several chunks a stage, all chunks of a group take the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from windtunnel import schedules
from windtunnel.arrays import Ints, Mask
from windtunnel.parallel.plan_sizes import MAX_INSTRUCTIONS, chosen_schedule
from windtunnel.planner.case import Case
from windtunnel.planner.space.candidates import LAYOUT_AXES, axis_of, axis_product, divisors, keep_legal, with_policies
from windtunnel.schedules.table import InstructionTable
from windtunnel.specs.cluster import MixedCluster
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.search import SearchSpec

MOST_TRIMMED = 3
"""Layers that the last stage may give to the others of its group: heads of large vocabularies take as long as these."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Axis sizes and switches; how groups share is left open."""

    plan: PlanSpec
    """With the axis that crosses groups; without shares."""
    policy: int
    parts: tuple[int, ...]
    """Replicas (along dp) or stages (along pp) of each group."""
    shares: Ints
    """(n, groups): micro-batches per replica, or layers."""
    trims: Ints
    """(n,): layers less than its share on the last stage, for groups along pp."""
    m: int
    """Micro-batches per replica of groups along pp, 0 of groups along dp."""

    def written(self, row: int, stage_group: Ints | None = None) -> PlanSpec:
        """The plan of one way to share.

        Args:
            row: of `shares`.
            stage_group: (K,): group of each virtual stage, for groups along pp.
        """
        share = tuple(int(n) for n in self.shares[row])
        if self.plan.group_axis == "dp":
            return self.plan.model_copy(update={"batch_shares": share})
        if stage_group is None:
            return self.plan
        return self.plan.model_copy(update={"stage_layers": spread(share, stage_group, int(self.trims[row]))})


@dataclass(frozen=True, slots=True)
class MixedSpace:
    """All layouts, and how many combinations each rule left out."""

    layouts: list[Layout]
    policies: int
    excluded: dict[str, int]

    @property
    def count(self) -> int:
        """Candidates: layouts with a way to share."""
        return sum(len(x.shares) for x in self.layouts)


def spread(layers: tuple[int, ...], group_of: Ints, trim: int = 0) -> tuple[int, ...]:
    """Layers of each virtual stage: even inside a group, the rest to those away from the ends of the model.

    Args:
        layers: of each group.
        group_of: group of each virtual stage.
        trim: layers less than its even share on the last one.
    """
    out = np.zeros(len(group_of), np.int64)
    last = len(layers) - 1
    for g, number in enumerate(layers):
        mine = np.flatnonzero(group_of == g)
        if g == last and trim:
            out[mine[-1]] = number // len(mine) - trim
            number, mine = number - int(out[mine[-1]]), mine[:-1]
        each, rest = divmod(number, len(mine))
        out[mine] = each
        at = len(mine) - rest if g == 0 else 0 if g == last else (len(mine) - rest) // 2
        out[mine[at : at + rest]] += 1
    return tuple(out.tolist())


def group_of_parts(table: InstructionTable, stages: tuple[int, ...]) -> Ints:
    """(K,): group of each virtual stage."""
    return np.repeat(np.arange(len(stages)), stages)[table.placement[:, 0]]


def mixed_space(case: Case, plan: PlanSpec, wanted: SearchSpec) -> MixedSpace:
    """Every legal plan on a mixed cluster."""
    cluster = case.cluster
    assert isinstance(cluster, MixedCluster)
    excluded: dict[str, int] = {}
    listed = wanted.space.group_axis or ((plan.group_axis,) if "group_axis" in plan.model_fields_set else ("dp", "pp"))
    layouts: list[Layout] = []
    policies = 0
    for crossing in dict.fromkeys(listed):
        sizes = _axes(case, cluster, plan, wanted, crossing, excluded)
        candidates = with_policies(sizes, case.model, plan, wanted, case.behaviour, excluded, case.can)
        policies = len(candidates.policies)
        for i, j in zip(*np.nonzero(candidates.legal), strict=True):
            if candidates.policies[j].is_open:
                rule = "a split or recomputation that the planner would balance over unlike groups"
                excluded[rule] = excluded.get(rule, 0) + 1
                continue
            made = _layout(case, cluster, plan, candidates.plan(int(i), int(j)), int(j), crossing)
            if made is not None:
                layouts.append(made)
    return MixedSpace(layouts, policies, excluded)


def _axes(
    case: Case, cluster: MixedCluster, plan: PlanSpec, wanted: SearchSpec, crossing: str, excluded: dict[str, int]
) -> dict[str, Ints]:
    """Axis sizes that the model, every group and the batch allow."""
    model, training, space = case.model, case.training, wanted.space
    devices = [group.num_devices for group in cluster.groups]
    total = sum(devices)
    depth, heads, experts = len(model.layer_kinds()), model.num_attention_heads, model.num_experts
    inside = divisors(math.gcd(*devices))
    axes = {
        "tp": axis_of(space, plan, "tp", [d for d in inside if heads % d == 0]),
        "cp": axis_of(space, plan, "cp", [d for d in inside if d == 1 or training.seq_len % (2 * d) == 0]),
        "pp": axis_of(space, plan, "pp", [d for d in divisors(total) if d <= depth]),
        "vpp": axis_of(space, plan, "vpp", divisors(depth)),
        "ep": axis_of(space, plan, "ep", divisors(experts) if experts else [1]),
        "etp": axis_of(space, plan, "etp", [1]),
        "mbs": axis_of(space, plan, "mbs", divisors(training.global_batch)),
    }
    sizes = dict(zip(LAYOUT_AXES, axis_product(axes).T, strict=True))
    inner = sizes["tp"] * sizes["cp"] * (sizes["pp"] if crossing == "dp" else 1)
    replicas = total if crossing == "dp" else total // sizes["pp"]
    dp = replicas // np.maximum(inner, 1)
    quanta = training.global_batch // sizes["mbs"]
    sizes["dp"], sizes["m"] = dp, np.maximum(quanta // np.maximum(dp, 1), 1)
    found = keep_legal(sizes, _axis_rules(sizes, case, devices, plan, crossing), excluded)
    if crossing == "dp":  # shares differ: schedules are asked again for each
        found["m"] = 2 * found["pp"]
    return found


def _axis_rules(
    sizes: dict[str, Ints], case: Case, devices: list[int], plan: PlanSpec, crossing: str
) -> dict[str, Mask]:
    """Rule → layouts that keep to it.

    Args:
        sizes: axis sizes, replicas and micro-batches.
        case: what all candidates share.
        devices: of each group.
        plan: what all candidates share, and axes that are not searched.
        crossing: the axis that crosses groups, dp or pp.
    """
    training, experts, depth = case.training, case.model.num_experts, len(case.model.layer_kinds())
    tp, cp, pp, vpp, dp = (sizes[name] for name in ("tp", "cp", "pp", "vpp", "dp"))
    along_dp, everything = crossing == "dp", np.full(len(tp), True)
    rules = {
        f"every group holds whole {'replicas' if along_dp else 'stages'}": _whole_groups(sizes, devices, crossing),
        "dp is the one the plan sets": (dp == plan.dp) if plan.dp != "auto" else everything,
        "micro-batches make up the global batch": (training.global_batch % sizes["mbs"] == 0)
        & (everything if along_dp else training.global_batch // sizes["mbs"] % np.maximum(dp, 1) == 0),
        "tp divides the attention heads": case.model.num_attention_heads % tp == 0,
        "2 · cp divides the sequence": (cp == 1) | (training.seq_len % (2 * cp) == 0),
        "ep divides the experts, ep · etp the ranks": _experts_fit(sizes, devices, experts, crossing),
        "pp · vpp fits the layers": (pp * vpp <= depth) & ((pp > 1) | (vpp == 1)),
        "stage_layers has pp · vpp entries": np.full(len(tp), not plan.stage_layers)
        | (pp * vpp == len(plan.stage_layers or ())),
        f"at most {MAX_INSTRUCTIONS} instructions": sizes["m"] * pp * vpp <= MAX_INSTRUCTIONS,
    }
    return {f"{crossing}: {rule}": ok for rule, ok in rules.items()}


def _whole_groups(sizes: dict[str, Ints], devices: list[int], crossing: str) -> Mask:
    """Where every group holds whole replicas (crossing dp) or whole stages (crossing pp)."""
    common, total, inner = math.gcd(*devices), sum(devices), sizes["tp"] * sizes["cp"]
    if crossing == "dp":
        return np.asarray(common % np.maximum(inner * sizes["pp"], 1) == 0)
    each = total // sizes["pp"]
    return np.asarray((total % sizes["pp"] == 0) & (common % np.maximum(each, 1) == 0) & (each % inner == 0))


def _experts_fit(sizes: dict[str, Ints], devices: list[int], experts: int, crossing: str) -> Mask:
    """Where experts can be cut over the ranks of the smallest unit: replicas of the groups' gcd, or of a stage."""
    ep, etp, inner = sizes["ep"], sizes["etp"], sizes["tp"] * sizes["cp"]
    if crossing == "dp":
        fewest = math.gcd(*devices) // (inner * sizes["pp"])
    else:
        fewest = sum(devices) // sizes["pp"] // inner
    ranks = fewest * sizes["cp"] * sizes["tp"]
    fits = ranks % np.maximum(ep * etp, 1) == 0
    return np.asarray(fits & (experts % ep == 0) if experts else (ep == 1) & (etp == 1))


def _layout(
    case: Case, cluster: MixedCluster, given: PlanSpec, plan: PlanSpec, policy: int, crossing: str
) -> Layout | None:
    """One layout with every way to share; None where there is none.

    Args:
        case: what all candidates share.
        cluster: the groups.
        given: the scenario's plan.
        plan: the candidate's.
        policy: its number.
        crossing: the axis that crosses groups, dp or pp.
    """
    dp = plan.dp
    assert dp != "auto"
    plan = plan.model_copy(update={"group_axis": crossing, "batch_shares": None})
    each = plan.tp * plan.cp * (plan.pp if crossing == "dp" else dp)
    parts = tuple(group.num_devices // each for group in cluster.groups)
    if crossing == "dp" and plan.zero == 3 and min(parts) < 2:
        return None
    ways = _batch_shares(case, given, plan, parts) if crossing == "dp" else _layer_shares(case, plan, parts)
    if not ways:
        return None
    m = 0 if crossing == "dp" else case.training.global_batch // (plan.mbs * dp)
    shares = np.array(ways, np.int64).reshape(-1, len(parts))
    trims = np.zeros(len(shares), np.int64)
    if crossing == "pp" and plan.vpp == 1 and parts[-1] > 1 and not plan.stage_layers:
        steps = np.arange(MOST_TRIMMED + 1)
        shares, trims = np.repeat(shares, len(steps), axis=0), np.tile(steps, len(shares))
        left = shares[:, -1] // parts[-1] > trims  # a layer at least
        shares, trims = shares[left], trims[left]
    return Layout(plan, policy, parts, shares, trims, m)


def _batch_shares(case: Case, given: PlanSpec, plan: PlanSpec, replicas: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Micro-batches of a replica of each group that make up the global batch and that the schedule can run."""
    schedule = schedules.describe(chosen_schedule(plan.schedule, plan.vpp, case.behaviour))
    known: dict[int, bool] = {}

    def runs(m: int) -> bool:
        if m not in known:
            known[m] = schedule.check(plan.pp, m, plan.vpp) is None
        return known[m]

    any_ = given.batch_shares in (None, "balanced")
    quanta = case.training.global_batch // plan.mbs
    return [s for s in _sums(replicas, quanta) if (any_ or given.batch_shares == s) and all(runs(n) for n in s)]


def _layer_shares(case: Case, plan: PlanSpec, stages: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Layers of each group, with at least one for every virtual stage; zeros where the plan writes its split out."""
    depth = len(case.model.layer_kinds())
    chunks = tuple(n * plan.vpp for n in stages)
    if plan.stage_layers:
        return [(0,) * len(stages)]
    if plan.vpp > 1:
        return [tuple(n * c for n, c in zip(s, chunks, strict=True)) for s in _sums(chunks, depth)]
    return [s for s in _sums((1,) * len(stages), depth) if all(n >= c for n, c in zip(s, chunks, strict=True))]


def _sums(each: tuple[int, ...], total: int) -> Iterator[tuple[int, ...]]:
    """All tuples of positive whole numbers n with Σ each · n = total."""
    if len(each) == 1:
        number, rest = divmod(total, each[0])
        if not rest and number > 0:
            yield (number,)
        return
    for n in range(1, (total - sum(each[1:])) // each[0] + 1):
        for others in _sums(each[1:], total - n * each[0]):
            yield (n, *others)
