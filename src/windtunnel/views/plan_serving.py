"""What `windtunnel plan` shows of serving: the best deployment, how sure it is, the next one and why, the proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from windtunnel.quantities import percent, quantity, seconds, three
from windtunnel.views import charts_plan_serving as charts
from windtunnel.views.plan_serving_labels import (
    AXES,
    PARTS,
    cut_words,
    limits_words,
    load_words,
    milli,
    thinned,
    where_words,
)
from windtunnel.views.train import scenario_section
from windtunnel.views.view import Fact, Lines, Section, Table, Text, Tile, View, Words, chart, dim, sections, table

if TYPE_CHECKING:
    from windtunnel.planner.serving.plan_deployment import Deployment, ServingPlan

_METRICS = ("devices", "tokens_per_s_per_device", "tokens_per_s_per_user", "cost_per_million_tokens")
"""Columns of a table of deployments besides the objectives."""
_OPEN = (
    "open points: the objective holds at the central prediction alone; "
    "nothing simulated is better in both than the line"
)
_THINNED = "of points within 1 % of each other one is shown; --json has all"


def view(plan: ServingPlan) -> View:
    """A search over deployments."""
    names = " and ".join(n.replace("_", " ") for n in plan.objectives)
    shown = thinned(plan)
    thin = [dim(_THINNED)] if len(shown) < len(plan.front) else []
    excluded = [Text(f"{rule}: {n:,} cuts left out", "dim") for rule, n in plan.excluded.items()]
    return View(
        title=plan.result.scenario_name or "Deployment",
        aside=f"{plan.proof.candidates:,} deployments, {plan.evaluated:,} simulated, in {seconds(plan.elapsed_s)}",
        tiles=tuple(_tiles(plan)),
        facts=tuple(_facts(plan)),
        sections=sections(
            chart("Throughput against speed", partial(charts.pareto, plan), _OPEN),
            Section("Best of each cut", (_deployments(plan, plan.frontier),)),
            Section("Pareto front", (_deployments(plan, shown), *thin), f"nothing beats these in {names}"),
            Section("Why not another", (Lines(tuple(why_words(plan))),)),
            Section("Proof", (Lines((*proof_words(plan), *excluded)),)),
            scenario_section(plan.scenario, "Scenario of the best deployment"),
        ),
        warnings=(*plan.notes, *plan.result.warnings),
        origin=(f"windtunnel {plan.result.version}", f"input hash {plan.result.input_hash}"),
    )


def _tiles(plan: ServingPlan) -> Iterator[Tile]:
    best = plan.best
    rates = f"{three(best.values['tokens_per_s_per_device'])} tokens/s a device"
    rates += f", {three(best.values['tokens_per_s_per_user'])} a user"
    more = (limits_words(best), _load(plan, best, upper=plan.upper), certain_words(plan), rates)
    yield _tile(plan, best, f"Best {plan.objectives[0].replace('_', ' ')}", f" on {where_words(best)}", *more)
    for name, other in (("Central prediction", plan.central), ("Simpler, as good", plan.simpler)):
        if other is not None:
            upper = plan.upper and other is plan.simpler
            yield _tile(plan, other, name, f", {limits_words(other)}", _load(plan, other, upper=upper))


def _tile(plan: ServingPlan, d: Deployment, name: str, after: str, *more: str) -> Tile:
    first = plan.objectives[0]
    return Tile(name, metric_words(first, d.values[first]), (f"{cut_words(d)}{after}", *more))


def _load(plan: ServingPlan, d: Deployment, *, upper: bool) -> str:
    kept = ", ".join(slo_words(d, plan, upper=upper))
    return f"at {load_words(d, plan)}" + (f": {kept}" if kept else "")


def _facts(plan: ServingPlan) -> Iterator[Fact]:
    if words := ends_words(plan):
        yield Fact("Devices needed", words)
    if (found := next_words(plan)) is not None:
        yield Fact("Measure next", f"{found[0]}: {found[1]}")
    if plan.instances:
        yield Fact("Instances needed", instances_words(plan))
    if plan.autoscale:
        yield Fact("Autoscaling", autoscale_words(plan))


def _deployments(plan: ServingPlan, rows: Sequence[Deployment]) -> Table:
    """Deployments side by side; of devices, engines and formats only what differs."""
    several = [n for n in ("device", "engine", "kv_cache", "weights") if len({d.plan[n] for d in rows}) > 1]
    known = (n for n in _METRICS if all(n in d.values for d in rows))
    names = list(dict.fromkeys([*plan.objectives, *known]))
    words = (n.replace("_", " ").replace("tokens per s per", "tok/s per") for n in names)
    heads = ("deployment", *several, "seqs", "tokens", "load", *words, "TTFT", "TPOT")
    cells: list[tuple[Words, ...]] = [
        (
            Text(cut_words(d), strong=d == plan.best),
            *(str(d.plan[n]) for n in several),
            f"{d.plan['max_num_seqs']:,}",
            f"{d.plan['max_num_batched_tokens']:,}",
            f"{three(d.load)}" if d.load else "–",
            *(metric_words(n, d.values[n]) for n in names),
            milli(d.quantiles["ttft_s"]),
            milli(d.quantiles["tpot_s"]),
        )
        for d in rows
    ]
    first = 1 + len(several)
    least = [first + 3 + names.index(n) for n in reversed(names) if n not in plan.objectives]
    return table(heads, cells, numeric=range(first, len(heads)), drop=least)


# -- sentences ---------------------------------------------------------------------------------------------------------
def slo_words(d: Deployment, plan: ServingPlan, *, upper: bool | None = None) -> list[str]:
    """What each part of the objective comes to, at its percentile, and at the upper end where that counts."""
    upper = plan.upper if upper is None else upper
    share = 100 * plan.slo["percentile"]
    out = []
    for n, word in PARTS.items():
        if (limit := plan.slo.get(n)) is not None:
            up = f" (up to {milli(d.quantiles[n] * d.high[n])})" if upper and n in d.high else ""
            out.append(f"{word} p{share:g} {milli(d.quantiles[n])}{up} of {milli(limit)}")
    return out


def metric_words(name: str, value: float) -> str:
    """A metric's value with its unit, where its name does not say that."""
    from windtunnel.planner.serving.objectives import METRICS

    return quantity(value, "" if "per_s" in name else METRICS[name].unit)


def binding_words(d: Deployment, plan: ServingPlan) -> str:
    """Which part of the objective is nearest to its limit."""
    used = {
        n: d.quantiles[n] * (d.high.get(n, 1.0) if plan.upper else 1.0) / v for n in PARTS if (v := plan.slo.get(n))
    }
    if not used:
        return ""
    most = max(used, key=lambda n: used[n])
    where = " at the upper end" if plan.upper else ""
    return f"{PARTS[most]} takes {100 * used[most]:.0f} % of its limit{where}"


def certain_words(plan: ServingPlan) -> str:
    """Whether the objective holds at the upper end of the interval."""
    if all(plan.slo.get(n) is None for n in PARTS):
        return "no objective is stated: nothing bounds latency"
    if plan.upper:
        return "the objective holds at the upper end of the prediction's 80 % interval too"
    return "the objective holds at the central prediction alone: a measured run may miss it"


def ends_words(plan: ServingPlan) -> str:
    """Devices at the central prediction and at the upper end of its band; empty where that end was not asked for."""
    if (ends := plan.ends) is None:
        return ""
    least = f"{_devices(ends.central_devices)} at the central prediction"
    if ends.upper_devices is None:
        return f"{least}; no candidate keeps the objective at the upper end of the interval"
    if ends.central_devices == ends.upper_devices and ends.central == ends.upper:
        return f"{_devices(ends.central_devices)} at the central prediction and at the upper end of the interval alike"
    first = plan.objectives[0]
    words = f"{least}, {ends.upper_devices:,} at the upper end of the interval"
    if first == "devices" or ends.upper is None:
        return words
    return (
        f"{words}; {first.replace('_', ' ')} {metric_words(first, ends.central)} and {metric_words(first, ends.upper)}"
    )


def next_words(plan: ServingPlan) -> tuple[str, str] | None:
    """The run that would settle what lies between both ends, and its command; None where nothing is proposed."""
    if (found := plan.measure_next) is None:
        return None
    left = ", ".join(
        f"{PARTS[n]} from + {percent(found.high[n] - 1.0, 0)} to + {percent(after - 1.0, 0)}"
        for n, after in found.high_after.items()
        if after < found.high[n]
    )
    more = _devices(found.devices_after)
    said = f"{found.what} would bring the upper end of {left}. If it confirms the prediction, {more} at most are needed"
    return said, found.command


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count:,} devices"


def instances_words(plan: ServingPlan) -> str:
    """Instances at the trough and at the peak of a traffic that rises and falls."""
    parts = []
    for name, need in plan.instances.items():
        count = _instances(need["replicas"])
        parts.append(f"{count} at the {name} of {need['rate_per_s']:,.3g} requests/s")
    return f"{', '.join(parts)}; held: {plan.best.plan['replicas']}" if parts else ""


def autoscale_words(plan: ServingPlan) -> str:
    """Bounds of the scenario's autoscaler, and what they hold; empty without one."""
    if not (own := plan.autoscale):
        return ""
    held, fixed = own["device_hours"], own["fixed_device_hours"]
    return (
        f"{own['min']} to {own['max']} instances at {own['target']:g} {own['signal'].replace('_', ' ')} each: "
        f"{own['instances_mean']:.1f} on average, {held:,.3g} device-hours of {fixed:,.3g} with a fixed number, "
        f"{own['starts']} starts of {own['start_up_s']:,.0f} s, {own['share']:.1%} within the objective"
    )


def _instances(count: int | None) -> str:
    if count is None:
        return "more instances than there is room for"
    return "1 instance" if count == 1 else f"{count} instances"


def why_words(plan: ServingPlan) -> list[str]:
    """Why the best beats the next cut, a sentence a line."""
    others = [d for d in plan.frontier if _cut_of(d) != _cut_of(plan.best)]
    if not others:
        return ["no other cut that was simulated keeps the objective"]
    nxt, first = others[0], plan.objectives[0]
    from windtunnel.planner.serving.objectives import METRICS

    metric, mine, theirs = METRICS[first], plan.best.values[first], nxt.values[first]
    if mine == theirs:
        text = f"the next cut, {cut_words(nxt)}, is as good in {first.replace('_', ' ')}, and not simpler"
    else:
        worse = 100 * abs(theirs - mine) / abs(mine) if mine else 0.0
        word = "less" if metric.maximise else "more"
        text = f"the next cut, {cut_words(nxt)}, has {worse:.1f} % {word} {first.replace('_', ' ')}"
    out = [text + (f"; at {load_words(nxt, plan)} its {b}" if (b := binding_words(nxt, plan)) else "")]
    if b := binding_words(plan.best, plan):
        out.append(f"what bounds the best: {b}; {plan.result.bound_by}" if plan.result.bound_by else b)
    return out


def _cut_of(d: Deployment) -> list[Any]:
    """How instances are cut, without how many there are and their batch limits."""
    other = d.plan.get("decode", {})
    return [d.plan[n] for n in ("device", "engine", "weights", "kv_cache", *AXES)] + [other.get(n) for n in AXES]


def proof_words(plan: ServingPlan) -> list[str]:
    """What is proven and what is not, a sentence a line."""
    p = plan.proof
    parts = [
        (p.too_slow, "answer one request alone too slowly"),
        (p.too_much, "have more work than time"),
        (p.limits, "break a limit"),
        (p.bound, "are bounded below the best"),
        (p.settled, "run exactly as another one"),
        (p.refused, "do not start"),
        (p.load, "have a load above one that their deployment failed at"),
        (p.simulated, "simulated"),
    ]
    said = ", ".join(f"{n:,} {words}" for n, words in parts if n)
    out = [f"{p.candidates:,} candidates, {plan.screened_per_s:,.0f} screened a second: {said}."]
    if not p.complete:
        left = "and others have no bound yet" if p.unscreened else f"the best of them could reach {three(p.next_bound)}"
        out.append(f"Stopped early: {p.open:,} were not looked at; {left}.")
    else:
        assumed = " if failing at a load means failing at higher ones" if p.load else ""
        out.append(f"No candidate of the space is better by the simulation of these requests{assumed}.")
    return out
