"""Step time with nodes missing where any plan can load a checkpoint: the best plan for the nodes that are left.

Tried are tensor parallelism within the node, pipeline depths and micro-batches; every layout is simulated on about half
of the nodes that may be missing, the best ones also at both ends. Between them the time of one micro-batch is
interpolated, so that the steps follow the whole replicas that a layout finds room for. The batch stays: a replica more
or less only moves micro-batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats
from windtunnel.errors import BadInput
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.training.stage_costs.pricing_cache import PricingCache

KEPT_LAYOUTS = 4
"""Layouts that are simulated on most and on fewest nodes too: the best by the middle."""

_KEPT: dict[tuple[str, tuple[str, ...]], float | None] = {}
"""Seconds of steps that this process has simulated, by scenario and settings; None where they do not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One way of cutting the model."""

    tp: int
    pp: int
    vpp: int
    mbs: int
    cp: int

    @property
    def devices(self) -> int:
        """Of one replica."""
        return self.tp * self.pp * self.cp

    @property
    def words(self) -> str:
        """As plans are written."""
        more = {"vpp": self.vpp, "cp": self.cp}
        told = "".join(f" · {name} {size}" for name, size in more.items() if size > 1)
        return f"tp {self.tp} · pp {self.pp}{told} · mbs {self.mbs}"


@dataclass(frozen=True, slots=True)
class FewerNodes:
    """How a job goes on without some of its nodes."""

    slow: Floats
    """Factor on step time with 0, 1, 2 … units missing, shape (D + 1,)."""
    layouts: tuple[str, ...] = ()
    """The plan at each of them in words; empty where the plan stays."""

    @property
    def changes(self) -> tuple[tuple[int, str], ...]:
        """(units missing, plan) wherever the plan is another than with one unit fewer missing."""
        return tuple((i, words) for i, words in enumerate(self.layouts) if not i or words != self.layouts[i - 1])


def reshaped_plans(
    scenario: Scenario, plan: ResolvedPlan, cluster: ClusterSpec, *, step_time_s: float, least: float
) -> FewerNodes:
    """Factor on step time with 0, 1, 2 … nodes missing, and the plans.

    Args:
        scenario: What is trained.
        plan: Its resolved plan.
        cluster: Its cluster.
        step_time_s: The step with all nodes.
        least: Share of the nodes below which the job waits.
    """
    most = min(math.floor((1.0 - least) * cluster.nodes), cluster.nodes - 1)
    own = Layout(tp=plan.tp, pp=plan.pp, vpp=plan.vpp, mbs=plan.mbs, cp=plan.cp)
    if most < 1:
        return FewerNodes(np.ones(1))
    case = _Case(scenario, plan, cluster)
    middle = cluster.nodes - (most + 1) // 2
    found = [(case.seconds(layout, middle), layout) for layout in _layouts(plan, cluster)]
    fitting = sorted((s, i, layout) for i, (s, layout) in enumerate(found) if math.isfinite(s))
    best = [layout for _, _, layout in fitting[:KEPT_LAYOUTS] if layout != own]
    counts = np.arange(most + 1)
    known = {plan.dp: step_time_s / case.passes(own, plan.dp)}
    curves = [case.curve(own, cluster.nodes - counts, known)]
    curves += [case.curve(layout, cluster.nodes - counts, {}) for layout in best]
    best, seconds = [own, *best], np.array(curves)
    chosen = seconds.argmin(axis=0)
    factors = np.maximum(seconds.min(axis=0) / step_time_s, 1.0)
    factors[0] = 1.0
    last = int(np.flatnonzero(np.isfinite(factors))[-1])
    # fewer nodes can leave some idle: no count is slower than a smaller one
    factors = np.minimum.accumulate(factors[last::-1])[::-1]
    words = [own.words, *(best[i].words for i in chosen[1 : last + 1].tolist())]
    return FewerNodes(np.maximum.accumulate(factors), tuple(words))


def _layouts(plan: ResolvedPlan, cluster: ClusterSpec) -> Iterator[Layout]:
    """Those next to the plan's own: half and double tensor parallelism and micro-batch, depths near."""
    depths = {1, plan.pp, 2 * plan.pp, 4 * plan.pp, max(plan.pp // 2, 1), max(3 * plan.pp // 2, 1)}
    sizes = {plan.mbs, 2 * plan.mbs, max(plan.mbs // 2, 1)}
    widths = {plan.tp, 2 * plan.tp, max(plan.tp // 2, 1)}
    for tp, pp, vpp, mbs in product(sorted(widths), sorted(depths), sorted({1, plan.vpp}), sorted(sizes)):
        small = tp <= max(cluster.devices_per_node, plan.tp) and tp * pp * plan.cp <= cluster.num_devices
        if small and (pp > 1 or vpp == 1):
            yield Layout(tp=tp, pp=pp, vpp=vpp, mbs=mbs, cp=plan.cp)


@dataclass(frozen=True, slots=True)
class _Case:
    """What is trained, and where."""

    scenario: Scenario
    plan: ResolvedPlan
    cluster: ClusterSpec
    cache: PricingCache = field(default_factory=PricingCache)

    @property
    def batch(self) -> int:
        return self.plan.m * self.plan.dp * self.plan.mbs

    def replicas(self, layout: Layout, nodes: int) -> int:
        """Whole replicas for which there is room; of several to a node those of whole nodes."""
        each = self.cluster.devices_per_node
        replicas = nodes * each // layout.devices
        while replicas and replicas * layout.devices % each:
            replicas -= 1
        return min(replicas, self.batch // layout.mbs)

    def micro_batches(self, layout: Layout, replicas: int) -> int:
        """Of the fullest replica."""
        return math.ceil(self.batch / (replicas * layout.mbs))

    def seconds(self, layout: Layout, nodes: int) -> float:
        """Of the whole batch on so many nodes; infinite where the layout does not fit."""
        replicas = self.replicas(layout, nodes)
        rate = self.rate(layout, replicas) if replicas else None
        return math.inf if rate is None else rate * self.passes(layout, replicas)

    def rate(self, layout: Layout, replicas: int) -> float | None:
        """Simulated seconds of one micro-batch; None where the layout does not fit."""
        many = self.micro_batches(layout, replicas)
        if layout.vpp > 1:  # interleaved schedules take whole rounds of the pipeline
            many = -(-many // layout.pp) * layout.pp
        settings = [
            f"cluster.nodes={replicas * layout.devices // self.cluster.devices_per_node}",
            f"training.global_batch={replicas * layout.mbs * many}",
            f"plan.dp={replicas}",
            f"plan.tp={layout.tp}",
            f"plan.pp={layout.pp}",
            f"plan.vpp={layout.vpp}",
            f"plan.mbs={layout.mbs}",
        ]
        if layout.pp != self.plan.pp:
            settings.append("plan.stage_layers=null")
        key = (self.scenario.model_dump_json(exclude={"run"}), tuple(settings))
        if key not in _KEPT:
            _KEPT[key] = _step_s(self.scenario, tuple(settings), self.cache)
        found = _KEPT[key]
        return None if found is None else found / (many + (layout.pp - 1) / layout.vpp)

    def curve(self, layout: Layout, nodes: npt.NDArray[np.int64], known: dict[int, float]) -> Floats:
        """Seconds of the whole batch on each number of nodes; infinite where there is no room.

        Args:
            layout: The layout.
            nodes: Falling.
            known: Replicas → seconds of a micro-batch, as far as they are known.
        """
        rates = dict(known)
        for count in (int(nodes[1]), int(nodes[len(nodes) // 2]), int(nodes[-1])):
            replicas = self.replicas(layout, count)
            found = self.rate(layout, replicas) if replicas else None
            if found is not None:
                rates[replicas] = found
        if not rates:
            return np.full(len(nodes), np.inf)
        places = sorted(rates)
        out = []
        for count in nodes.tolist():
            replicas = self.replicas(layout, count)
            rate = float(np.interp(replicas, places, [rates[r] for r in places]))
            out.append(rate * self.passes(layout, replicas) if replicas else np.inf)
        return np.array(out)

    def passes(self, layout: Layout, replicas: int) -> float:
        """Micro-batches of a replica, and those that fill its pipeline."""
        return self.micro_batches(layout, replicas) + (layout.pp - 1) / layout.vpp


def in_proportion(nodes: int, least: float) -> Floats:
    """`reshaped_plans` without simulations: a plan for fewer nodes has the throughput of a node that all have.

    Args:
        nodes: Of the job.
        least: Share of the nodes below which it waits.
    """
    most = min(math.floor((1.0 - least) * nodes), nodes - 1)
    return nodes / (nodes - np.arange(most + 1.0))


def _step_s(scenario: Scenario, settings: tuple[str, ...], cache: PricingCache) -> float | None:
    """Seconds of a step under other settings; None where the plan does not fit."""
    from windtunnel.training.predict import simulate_one_of_many

    try:
        found = simulate_one_of_many(scenario, overrides=settings, cache=cache)
    except BadInput:
        return None
    return found.step_time_s if found.memory_fits else None
