"""Which device class runs each node of an agent's graph, so that tasks keep their deadline at the least cost an hour.

Calls run on instances that prefill and decode, or on pools of their own for prompts and for answers, each on a group of
the cluster; tools run on slots of a class that has its own seconds and price. A placement's cost is exact without a
run: prices times devices and slots. Whether it keeps the deadline the request loop says, on the whole graph.

The search walks along the border between pools that are too few and those that are enough, for each pair of groups and
each choice of tools, and never runs what costs no less than the best so far. It takes for granted that more devices and
faster tools make no task later; what it finds is the least under that, for one plan of an instance.

Source: Asgar et al. 2025, Efficient and scalable agentic AI with heterogeneous systems (arXiv 2507.19635): nodes of a
graph on device classes by a cost model, under an SLA.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windtunnel.catalog import resolve_cluster
from windtunnel.errors import UNSET, Infeasible, ProblemList
from windtunnel.programs.result import Point
from windtunnel.programs.served import hour_of
from windtunnel.programs.simulate import simulate_programs
from windtunnel.scenarios.load import load
from windtunnel.scenarios.source import FieldsInFolder, Source
from windtunnel.specs.cluster import groups_of
from windtunnel.specs.scenario import Scenario

Form = tuple[tuple[str, int], ...]
"""Roles of pools (mixed, or prefill and decode), each with its group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPlace:
    """A class of slots that a tool may run on."""

    name: str
    seconds: float
    """Mean of one visit."""
    usd_per_hour: float
    """Of a slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where everything runs, and what that costs."""

    usd_per_hour: float
    pools: tuple[dict[str, Any], ...]
    """Section `serving.pools`."""
    tools: Mapping[str, ToolPlace]
    slots: Mapping[str, int]
    point: Point
    """As the request loop ran it."""
    simulated: int
    """Placements that were run on the way."""


@dataclass(slots=True, kw_only=True)
class _Search:
    """A scenario with its groups and prices, and the best so far."""

    fields: dict[str, Any]
    folder: Path
    prices: dict[int, float]
    """Group → USD of a device for an hour."""
    devices: dict[int, int]
    """Group → instances that it holds."""
    visits: dict[str, int]
    rate_per_s: float
    busy: float
    share: float
    plan: dict[str, Any]
    each: int
    """Devices of an instance."""
    best: float = math.inf
    found: Placement | None = None
    simulated: int = 0
    known: dict[tuple[Any, ...], Point] = field(default_factory=dict)

    def forget(self) -> float:
        """The cost of the best so far, which is the best no more; runs are remembered."""
        usd, self.best, self.found = self.best, math.inf, None
        return usd

    def slots(self, tool: str, place: ToolPlace) -> int:
        """Slots that are busy for a stated share of the time."""
        return max(math.ceil(self.rate_per_s * self.visits[tool] * place.seconds / self.busy - 1e-9), 1)

    def tools_usd(self, tools: Mapping[str, ToolPlace]) -> float:
        """USD an hour of all slots."""
        return sum(self.slots(tool, place) * place.usd_per_hour for tool, place in tools.items())

    def enough(self, pools: tuple[tuple[str, int, int], ...], tools: Mapping[str, ToolPlace], usd: float) -> bool:
        """Whether tasks keep their deadline; remembers a placement that does and is cheaper than the best."""
        key = pools, tuple(sorted((tool, place.name) for tool, place in tools.items()))
        if key not in self.known:
            self.known[key] = self._run(pools, tools)
            self.simulated += 1
        point = self.known[key]
        good = not point.saturated and (point.deadline_met or 0.0) >= self.share
        if good and usd < self.best:
            self.best = usd
            slots = {tool: self.slots(tool, place) for tool, place in tools.items()}
            self.found = Placement(
                usd_per_hour=usd,
                pools=self._pools(pools),
                tools=dict(tools),
                slots=slots,
                point=point,
                simulated=self.simulated,
            )
        return good

    def _pools(self, pools: tuple[tuple[str, int, int], ...]) -> tuple[dict[str, Any], ...]:
        return tuple({"role": role, "group": g, "replicas": n, "plan": self.plan} for role, g, n in pools)

    def _run(self, pools: tuple[tuple[str, int, int], ...], tools: Mapping[str, ToolPlace]) -> Point:
        own = {
            tool: {**self.fields["programs"]["tools"][tool], "seconds": place.seconds}
            | {"concurrency": self.slots(tool, place)}
            for tool, place in tools.items()
        }
        programs = self.fields["programs"]
        fields = {
            **self.fields,
            "serving": {**(self.fields.get("serving") or {}), "pools": [dict(p) for p in self._pools(pools)]},
            "programs": {**programs, "tools": {**programs["tools"], **own}},
        }
        return simulate_programs(FieldsInFolder(fields, self.folder)).last


def least_cost(
    source: Source,
    tools: Mapping[str, Sequence[ToolPlace]],
    *,
    share: float = 0.9,
    groups: Sequence[int] | None = None,
    forms: Sequence[Form] | None = None,
) -> Placement:
    """The cheapest placement whose tasks keep their deadline.

    Args:
        source: a scenario with `programs` (strategy graph, `rate_per_s`, `deadline_s`) and a cluster of device classes.
        tools: for each tool that nodes name, the classes that it may run on.
        share: of tasks that must end within `programs.deadline_s`.
        groups: of the cluster, those to choose from; absent: all.
        forms: roles of pools, each with its group, as `(("prefill", 0), ("decode", 1))`; absent: pools that prefill and
            decode on each group, and every pair of groups for one and the other.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no placement on the devices that there are keeps the deadline.

    Example:
        >>> place = ToolPlace(name="core", seconds=0.2, usd_per_hour=0.05)
        >>> least_cost("agent.yaml", {"index": (place,)}).usd_per_hour  # doctest: +SKIP
    """
    search = _search(source, tools, share, groups)
    choices = [dict(zip(tools, own, strict=True)) for own in itertools.product(*tools.values())]
    fastest = {tool: min(own, key=lambda p: p.seconds) for tool, own in tools.items()}
    wanted = tuple(_forms(search)) if forms is None else forms
    for pools in wanted:
        _walk(search, pools, fastest, 0.0)
    least = search.forget()  # of pools alone, under tools that nothing beats
    if math.isfinite(least):
        for own in sorted(choices, key=search.tools_usd):
            usd = search.tools_usd(own)
            if usd + least < search.best:
                for pools in wanted:
                    _walk(search, pools, own, usd)
    if search.found is None:
        held = ", ".join(f"{n} of group {g}" for g, n in search.devices.items())
        raise Infeasible(f"no placement on {held} instances ends {share:.0%} of the tasks within the deadline")
    return search.found


def _search(
    source: Source, tools: Mapping[str, Sequence[ToolPlace]], share: float, groups: Sequence[int] | None
) -> _Search:
    scenario, lines, folder = load(source, ())
    problems = ProblemList(lines)
    programs = scenario.programs
    if programs is None:
        problems.add("programs", UNSET, "is required: a graph of calls and tools")
    problems.raise_if_any()
    assert programs is not None
    for name in ("rate_per_s", "deadline_s"):
        if getattr(programs, name) is None:
            problems.add(f"programs.{name}", UNSET, "is required: placements are compared at a rate and a deadline")
    visits = _visits(scenario, problems)
    for tool in visits:
        if not tools.get(tool):
            problems.add(f"programs.tools.{tool}", UNSET, "has no class of slots to run on")
    for tool in tools:
        if tool not in visits:
            problems.add(f"programs.tools.{tool}", tool, "is named by no node of the graph")
    parts = groups_of(resolve_cluster(scenario.cluster))
    prices: dict[int, float] = {}
    for g in range(len(parts)) if groups is None else groups:
        price = hour_of(parts[g])
        if price is None:
            problems.add(f"cluster.groups[{g}].price_per_device_hour", UNSET, "is required: placements cost money")
        else:
            prices[g] = price
    problems.raise_if_any()
    plan, each = _plan(scenario)
    assert programs.rate_per_s is not None
    return _Search(
        fields=scenario.model_dump(mode="json", exclude_unset=True),
        folder=folder,
        prices=prices,
        devices={g: parts[g].num_devices // each for g in prices},
        visits=visits,
        rate_per_s=programs.rate_per_s,
        busy=programs.busy,
        share=share,
        plan=plan,
        each=each,
    )


def _plan(scenario: Scenario) -> tuple[dict[str, Any], int]:
    """Plan of every instance, that of the first pool, and its devices."""
    serving = scenario.serving
    if serving is None or not serving.pools:
        return {"tp": 1}, 1
    plan = serving.pools[0].plan
    return plan.model_dump(mode="json", exclude_unset=True), plan.num_devices


def _visits(scenario: Scenario, problems: ProblemList) -> dict[str, int]:
    """Tool → visits of a task at most: those of branches that are not taken are counted."""
    assert scenario.programs is not None
    field_, strategy = scenario.programs.asked[0]
    nodes = strategy["graph"].get("nodes", []) if isinstance(strategy, dict) and "graph" in strategy else None
    if nodes is None or len(scenario.programs.asked) > 1:
        problems.add(f"programs.{field_}", strategy, "must be one graph with its nodes")
        return {}
    out: dict[str, int] = {}
    for node in nodes:
        if node.get("tool"):
            out[node["tool"]] = out.get(node["tool"], 0) + int(node.get("repeat", 1))
    return out


def _forms(search: _Search) -> Iterator[Form]:
    """Pools that prefill and decode on each group, then every pair of groups for one and the other."""
    for g in search.prices:
        yield (("mixed", g),)
    for g, h in itertools.product(search.prices, repeat=2):
        yield (("prefill", g), ("decode", h))


def _walk(search: _Search, form: Form, tools: Mapping[str, ToolPlace], tools_usd: float) -> None:
    """Along the border of what is enough: one more of the first pool where it is not, else one less of the last."""
    first, last = form[0][1], form[-1][1]
    price = [search.prices[g] * search.each for _, g in form]
    if len(form) == 1:
        for n in range(1, search.devices[first] + 1):
            usd = tools_usd + price[0] * n
            if usd >= search.best or search.enough(((form[0][0], first, n),), tools, usd):
                return
        return
    n, m = 1, search.devices[last]
    while n <= search.devices[first] and m >= 1:
        usd = tools_usd + price[0] * n + price[1] * m
        if usd >= search.best or (first == last and n + m > search.devices[first]):
            m -= 1
        elif search.enough(((form[0][0], first, n), (form[1][0], last, m)), tools, usd):
            m -= 1
        else:
            n += 1
