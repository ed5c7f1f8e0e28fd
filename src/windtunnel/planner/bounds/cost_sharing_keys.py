"""Which candidates share block costs, weights, traffic or memory: what a screen prices once and then looks up."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from windtunnel import schedules
from windtunnel.arrays import Ints
from windtunnel.planner.space.candidates import Candidates, Policy
from windtunnel.specs.cluster import ClusterSpec


def stride_of(candidates: Candidates, order: Sequence[str], axis: str, rows: Ints | None = None) -> Ints:
    """Distance in devices between neighbours along a mesh axis, of each layout or of some."""
    picked = slice(None) if rows is None else rows
    out = np.ones_like(candidates.tp[picked])
    for name in order[: list(order).index(axis)]:
        if name != "ep":
            out = out * getattr(candidates, name)[picked]
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSharing:
    """Which candidates share block costs, weights, data-parallel traffic and memory."""

    layout: Ints
    weights: Ints
    places: dict[tuple[str, ...], Ints]
    """Order → code of where groups inside a block sit, of each layout."""
    spread: dict[tuple[str, ...], Ints]
    """Order → code of where replicas of a shard sit, of each layout."""
    hops: dict[tuple[str, ...], Ints]
    """Order → distance between neighbouring stages, of each layout."""
    blocks: list[Hashable]
    holds: list[Hashable]
    """The switches of each policy that change the memory which lasts through a step."""
    sends: list[Hashable]
    """The switches of each policy that change data-parallel traffic."""
    updates: list[Hashable]
    """The switches of each policy that change the optimizer's time."""
    copies: list[Hashable]
    """The switches of each policy that change copies between device and host memory; None: nothing is copied."""
    orders: list[tuple[str, ...]]

    @classmethod
    def of(cls, candidates: Candidates, cluster: ClusterSpec) -> CostSharing:
        """Keys of all layouts and policies."""
        columns = [
            candidates.tp,
            candidates.cp,
            candidates.ep,
            candidates.etp,
            candidates.mbs,
            np.minimum(candidates.m, 2),
        ]
        if any(
            policy.schedule and schedules.describe(policy.schedule).split_backward for policy in candidates.policies
        ):
            columns += [candidates.pp > 1]  # one stage alone has no schedule, and its backward is not split
        if any(
            policy.zero == 3 for policy in candidates.policies
        ):  # unsharded copies are part of a block, once a step under a pipeline
            columns += [np.where(candidates.pp > 1, candidates.m, 0), np.minimum(candidates.dp * candidates.cp, 2)]
        layout = np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)
        sizes = [
            candidates.tp,
            candidates.cp,
            candidates.ep,
            candidates.etp,
            candidates.dp * candidates.cp > 1,
            candidates.pp > 1,
        ]
        weights = np.unique(np.stack(sizes), axis=1, return_inverse=True)[1].reshape(-1)
        shards = [(policy.zero, policy.shard_group, policy.reshard_after_forward) for policy in candidates.policies]
        away = [
            (policy.offload.activations, policy.offload.optimizer, policy.offload.params, policy.offload.tier)
            for policy in candidates.policies
        ]
        over = [(policy.overlap.grad_reduce, policy.overlap.param_gather) for policy in candidates.policies]
        orders = {policy.order for policy in candidates.policies}
        return cls(
            layout=layout,
            weights=weights,
            places=_places(candidates, orders, cluster, ("tp", "cp")),
            spread=_places(candidates, orders, cluster, ("cp", "dp")),
            hops={order: np.minimum(stride_of(candidates, order, "pp"), cluster.scale_up_domain) for order in orders},
            blocks=[_block_key(policy) for policy in candidates.policies],
            holds=[(*s, *o) for s, o in zip(shards, away, strict=True)],
            sends=[(*s, *o) for s, o in zip(shards, over, strict=True)],
            updates=[(*s, o[1], o[3]) for s, o in zip(shards, away, strict=True)],
            copies=[
                (o[0], o[2], o[3], s if s[0] == 3 and o[2] else None) if o[0] or o[2] else None
                for s, o in zip(shards, away, strict=True)
            ],
            orders=[policy.order for policy in candidates.policies],
        )

    def cell(self, row: int, policy: int) -> Hashable:
        """The key of a candidate's block costs."""
        return int(self.layout[row]), self.blocks[policy], int(self.places[self.orders[policy]][row])


def _places(
    candidates: Candidates, orders: set[tuple[str, ...]], cluster: ClusterSpec, axes: tuple[str, ...]
) -> dict[tuple[str, ...], Ints]:
    """Order → code of where groups over some axes sit: alike where sizes and strides are.

    Beyond a domain all strides are alike, but for a torus and for thin uplinks; groups that do not divide a domain are
    counted rank by rank, so that all axes count.
    """
    domain = cluster.scale_up_domain
    uneven = cluster.scale_out.oversubscription > 1 or cluster.scale_out.fabric is not None
    far = 2**62 if uneven or cluster.scale_up.topology == "torus" else domain
    named = sorted(orders)
    rows = []
    for order in named:
        columns = []
        for name in axes:
            size, stride = getattr(candidates, name), stride_of(candidates, order, name)
            whole = size == 1
            divides = [(reach % domain == 0) | (domain % reach == 0) for reach in (stride, stride * size)]
            whole |= divides[0] & divides[1]
            columns += [np.where(size > 1, np.minimum(stride, far), 0)]
            columns += [np.where(whole, 0, other) for other in (candidates.dp, candidates.pp, stride)]
        rows.append(np.stack(columns))
    codes = np.unique(np.concatenate(rows, axis=1), axis=1, return_inverse=True)[1].reshape(len(named), -1)
    return dict(zip(named, codes, strict=True))


class Unique:
    """Which of many records are equal: `first` is an index of each distinct one, `of` says which one each record is."""

    def __init__(self, records: Sequence[Hashable]) -> None:
        seen: dict[Hashable, int] = {}
        self.first: list[int] = []
        codes = []
        for i, record in enumerate(records):
            if record not in seen:
                seen[record] = len(seen)
                self.first.append(i)
            codes.append(seen[record])
        self.of = np.array(codes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyGroup:
    """J policies that walk pipelines alike, and what tells them apart."""

    columns: list[int]
    """Their numbers among all policies."""
    policies: list[Policy]
    blocks: Unique
    """Ways to cut a block, with whether hops run next to computation."""
    p2p: Ints
    """Whether hops run next to computation in each way: 1 yes, 0 no, −1 as the framework does."""
    holds: list[Hashable]
    sends: list[Hashable]
    updates: list[Hashable]
    copies: list[Hashable]
    holding: Unique
    sending: Unique
    updating: Unique
    copying: Unique
    joint: Unique
    """Distinct combinations of communication, copies and optimizer update."""

    @classmethod
    def of(cls, candidates: Candidates, sharing: CostSharing, columns: list[int]) -> PolicyGroup:
        """Group the policies with the numbers `columns`."""
        policies = [candidates.policies[j] for j in columns]
        holds, sends, updates, copies = (
            [of[j] for j in columns] for of in (sharing.holds, sharing.sends, sharing.updates, sharing.copies)
        )
        blocks = Unique([(sharing.blocks[j], candidates.policies[j].overlap.p2p) for j in columns])
        p2p = [policies[j].overlap.p2p for j in blocks.first]
        return cls(
            columns=columns,
            policies=policies,
            blocks=blocks,
            p2p=np.array([-1 if beside is None else int(beside) for beside in p2p]),
            holds=holds,
            sends=sends,
            updates=updates,
            copies=copies,
            holding=Unique(holds),
            sending=Unique(sends),
            updating=Unique(updates),
            copying=Unique(copies),
            joint=Unique(list(zip(sends, updates, copies, strict=True))),
        )


def _block_key(policy: Policy) -> Hashable:
    """Every field of a policy that changes the cost of a block."""
    schedule = schedules.describe(policy.schedule) if policy.schedule else None
    split = (schedule.split_backward, schedule.units) if schedule else (False, False)
    return (
        policy.recompute.policy,
        policy.recompute.modules,
        policy.recompute.num_layers is None,
        policy.recompute.early_stop,
        policy.sp,
        policy.cp_kind,
        policy.cp_all_to_all,
        policy.overlap.tp,
        policy.overlap.moe_a2a,
        split,
        policy.zero == 3 and (policy.reshard_after_forward,),
    )
