"""What `windtunnel plan` shows of serving: the best deployment, how sure it is, the next one and why, the proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from windtunnel.quantities import seconds
from windtunnel.views import charts_plan_serving as charts
from windtunnel.views.plan_serving_words import (
    autoscale_words,
    certain_words,
    cut_words,
    ends_words,
    instances_words,
    limits_words,
    load_words,
    metric_words,
    milli,
    next_words,
    proof_words,
    slo_words,
    thinned,
    where_words,
    why_words,
)
from windtunnel.views.train import scenario_section
from windtunnel.views.view import Drawing, Fact, Lines, Section, Table, Text, Tile, View, Words, sections, table

if TYPE_CHECKING:
    from windtunnel.planner.serving.plan_deployment import Deployment, ServingPlan

_METRICS = ("devices", "tokens_per_s_per_device", "tokens_per_s_per_user", "cost_per_million_tokens")
"""Columns of a table of deployments besides the objectives."""
_THINNED = "of points within 1 % of each other one is shown; --json has all"


def view(plan: ServingPlan) -> View:
    """A search over deployments."""
    names = " and ".join(n.replace("_", " ") for n in plan.objectives)
    shown = thinned(plan)
    thin = [Lines((Text(_THINNED, "dim"),))] if len(shown) < len(plan.front) else []
    excluded = [Text(f"{rule}: {n:,} cuts left out", "dim") for rule, n in plan.excluded.items()]
    chart = Drawing(partial(charts.pareto, plan))
    return View(
        title=plan.result.scenario_name or "Deployment",
        aside=f"{plan.proof.candidates:,} deployments, {plan.evaluated:,} simulated, in {seconds(plan.elapsed_s)}",
        tiles=tuple(_tiles(plan)),
        facts=tuple(_facts(plan)),
        sections=sections(
            Section(
                "Throughput against speed",
                (chart,),
                "open points: the objective holds at the central prediction alone; nothing simulated is better in both "
                "than the line",
                pages_only=True,
            ),
            Section("Best of each cut", (_deployments(plan, plan.frontier),)),
            Section("Pareto front", (_deployments(plan, shown), *thin), f"nothing beats these in {names}")
            if plan.front
            else None,
            Section("Why not another", (Lines(tuple(why_words(plan))),)),
            Section("Proof", (Lines((*proof_words(plan), *excluded)),)),
            scenario_section(plan.scenario, "Scenario of the best deployment"),
        ),
        warnings=(*plan.notes, *plan.result.warnings),
        origin=(f"windtunnel {plan.result.version}", f"input hash {plan.result.input_hash}"),
    )


def _tiles(plan: ServingPlan) -> Iterator[Tile]:
    best = plan.best
    rates = f"{best.values['tokens_per_s_per_device']:,.4g} tokens/s a device"
    rates += f", {best.values['tokens_per_s_per_user']:,.4g} a user"
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
            f"{d.load:,.4g}" if d.load else "–",
            *(metric_words(n, d.values[n]) for n in names),
            milli(d.quantiles["ttft_s"]),
            milli(d.quantiles["tpot_s"]),
        )
        for d in rows
    ]
    first = 1 + len(several)
    least = [first + 3 + names.index(n) for n in reversed(names) if n not in plan.objectives]
    return table(heads, cells, numeric=range(first, len(heads)), drop=least)
