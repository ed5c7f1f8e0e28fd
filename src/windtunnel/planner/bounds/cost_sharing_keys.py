"""Which candidates share a cell, weights, traffic or memory: what a screen prices once and looks up ever after."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from windtunnel import schedules
from windtunnel.arrays import Ints
from windtunnel.planner.space.candidates import Candidates, Policy
from windtunnel.specs.cluster import ClusterSpec


def stride_of(x: Candidates, order: Sequence[str], axis: str, rows: Ints | None = None) -> Ints:
    """Distance in devices between neighbours along a mesh axis, of each layout or of some."""
    picked = slice(None) if rows is None else rows
    out = np.ones_like(x.tp[picked])
    for name in order[: list(order).index(axis)]:
        if name != "ep":
            out = out * getattr(x, name)[picked]
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Which candidates share a cell, and which share weights."""

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
    """What changes the memory that lasts, of each policy."""
    sends: list[Hashable]
    """What changes data-parallel traffic."""
    updates: list[Hashable]
    """What changes the optimizer's time."""
    copies: list[Hashable]
    """What changes copies between device and host memory; None where nothing is copied."""
    orders: list[tuple[str, ...]]

    @classmethod
    def of(cls, x: Candidates, cluster: ClusterSpec) -> Keys:
        """Keys of all layouts and policies."""
        columns = [x.tp, x.cp, x.ep, x.etp, x.mbs, np.minimum(x.m, 2)]
        if any(q.schedule and schedules.describe(q.schedule).split_backward for q in x.policies):
            columns += [x.pp > 1]  # one stage alone has no schedule, and its backward is not split
        if any(q.zero == 3 for q in x.policies):  # unsharded copies are part of a block, once a step under a pipeline
            columns += [np.where(x.pp > 1, x.m, 0), np.minimum(x.dp * x.cp, 2)]
        layout = np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)
        sizes = [x.tp, x.cp, x.ep, x.etp, x.dp * x.cp > 1, x.pp > 1]
        weights = np.unique(np.stack(sizes), axis=1, return_inverse=True)[1].reshape(-1)
        shards = [(q.zero, q.shard_group, q.reshard_after_forward) for q in x.policies]
        away = [(q.offload.activations, q.offload.optimizer, q.offload.params, q.offload.tier) for q in x.policies]
        over = [(q.overlap.grad_reduce, q.overlap.param_gather) for q in x.policies]
        orders = {q.order for q in x.policies}
        return cls(
            layout=layout,
            weights=weights,
            places=_places(x, orders, cluster, ("tp", "cp")),
            spread=_places(x, orders, cluster, ("cp", "dp")),
            hops={order: np.minimum(stride_of(x, order, "pp"), cluster.scale_up_domain) for order in orders},
            blocks=[_block_key(q) for q in x.policies],
            holds=[(*s, *o) for s, o in zip(shards, away, strict=True)],
            sends=[(*s, *o) for s, o in zip(shards, over, strict=True)],
            updates=[(*s, o[1], o[3]) for s, o in zip(shards, away, strict=True)],
            copies=[
                (o[0], o[2], o[3], s if s[0] == 3 and o[2] else None) if o[0] or o[2] else None
                for s, o in zip(shards, away, strict=True)
            ],
            orders=[q.order for q in x.policies],
        )

    def cell(self, row: int, policy: int) -> Hashable:
        """The cell of one candidate."""
        return int(self.layout[row]), self.blocks[policy], int(self.places[self.orders[policy]][row])


def _places(
    x: Candidates, orders: set[tuple[str, ...]], cluster: ClusterSpec, axes: tuple[str, ...]
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
            size, stride = getattr(x, name), stride_of(x, order, name)
            whole = size == 1
            divides = [(reach % domain == 0) | (domain % reach == 0) for reach in (stride, stride * size)]
            whole |= divides[0] & divides[1]
            columns += [np.where(size > 1, np.minimum(stride, far), 0)]
            columns += [np.where(whole, 0, other) for other in (x.dp, x.pp, stride)]
        rows.append(np.stack(columns))
    codes = np.unique(np.concatenate(rows, axis=1), axis=1, return_inverse=True)[1].reshape(len(named), -1)
    return dict(zip(named, codes, strict=True))


class Distinct:
    """Which of many records are alike: `first` of each kind, and the kind `of` each."""

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
class Group:
    """Policies that walk pipelines alike, and what tells them apart. J policies."""

    columns: list[int]
    """Their numbers among all policies."""
    policies: list[Policy]
    blocks: Distinct
    """Ways to cut a block, with whether hops run beside computation."""
    p2p: Ints
    """Of each of these: 1 beside, 0 not, −1 as the framework does."""
    holds: list[Hashable]
    sends: list[Hashable]
    updates: list[Hashable]
    copies: list[Hashable]
    holding: Distinct
    sending: Distinct
    updating: Distinct
    copying: Distinct
    joint: Distinct
    """Of what is sent, copied and updated together."""

    @classmethod
    def of(cls, x: Candidates, keys: Keys, columns: list[int]) -> Group:
        """What the policies `columns` have in common and apart."""
        policies = [x.policies[j] for j in columns]
        holds, sends, updates, copies = (
            [of[j] for j in columns] for of in (keys.holds, keys.sends, keys.updates, keys.copies)
        )
        blocks = Distinct([(keys.blocks[j], x.policies[j].overlap.p2p) for j in columns])
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
            holding=Distinct(holds),
            sending=Distinct(sends),
            updating=Distinct(updates),
            copying=Distinct(copies),
            joint=Distinct(list(zip(sends, updates, copies, strict=True))),
        )


def _block_key(q: Policy) -> Hashable:
    """What changes the cost of a block."""
    schedule = schedules.describe(q.schedule) if q.schedule else None
    split = (schedule.split_backward, schedule.units) if schedule else (False, False)
    return (
        q.recompute.policy,
        q.recompute.modules,
        q.recompute.num_layers is None,
        q.recompute.early_stop,
        q.sp,
        q.cp_kind,
        q.cp_all_to_all,
        q.overlap.tp,
        q.overlap.moe_a2a,
        split,
        q.zero == 3 and (q.reshard_after_forward,),
    )
