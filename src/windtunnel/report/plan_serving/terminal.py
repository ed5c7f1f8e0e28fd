"""A search for a deployment on the terminal: the best, how sure it is, what came next and why, and the proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from windtunnel.quantities import seconds
from windtunnel.report.plan_serving.text import (
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

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.planner.serving.plan_deployment import Deployment, ServingPlan

_WIDE = 100
"""Columns of the terminal from which on a table has all of its own."""
_SHOWN = ("devices", "tokens_per_s_per_device", "tokens_per_s_per_user", "cost_per_million_tokens")


def summary(plan: ServingPlan, width: int = 100) -> RenderableType:
    """Everything about one search, as something `rich` prints.

    Args:
        plan: the search.
        width: columns of the terminal.
    """
    head = Text(plan.result.scenario_name, style="bold")
    head.append(
        f"   {plan.proof.candidates:,} deployments, {plan.evaluated:,} simulated, in {seconds(plan.elapsed_s)}",
        style="dim",
    )
    lines: list[RenderableType] = [head, Text(), _best(plan)]
    lines += [_title("Best of each cut"), _table(plan, plan.frontier, width)]
    if plan.front:
        names = " and ".join(n.replace("_", " ") for n in plan.objectives)
        lines += [_title(f"Pareto front: nothing beats these in {names}"), _table(plan, thinned(plan), width)]
        if len(thinned(plan)) < len(plan.front):
            lines.append(_wrapped("of points within 1 % of each other one is shown; --json has all", "dim"))
    lines += [_title("Why not another"), *(_wrapped(t) for t in why_words(plan))]
    lines += [_title("Proof"), *(_wrapped(t) for t in proof_words(plan))]
    lines += [_wrapped(f"{rule}: {n:,} cuts left out", "dim") for rule, n in plan.excluded.items()]
    lines += [Text(f"note: {text}", style="yellow") for text in plan.notes]
    lines += [Text(f"warning: {text}", style="yellow") for text in plan.result.warnings]
    return Group(*lines)


def _title(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _wrapped(text: str, style: str = "") -> Padding:
    return Padding(Text(text, style=style), (0, 0, 0, 2), expand=False)


def _best(plan: ServingPlan) -> RenderableType:
    best, first = plan.best, plan.objectives[0]
    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column()
    name = f"Best {first.replace('_', ' ')}"
    grid.add_row(name, metric_words(first, best.values[first]), f"{cut_words(best)} on {where_words(best)}")
    grid.add_row("", "", limits_words(best))
    grid.add_row("", "", f"at {load_words(best, plan)}: " + ", ".join(slo_words(best, plan)))
    grid.add_row("", "", certain_words(plan))
    if words := ends_words(plan):
        grid.add_row("Devices needed", "", words)
    if (told := next_words(plan)) is not None:
        grid.add_row("Measure next", "", f"{told[0]}: {told[1]}")
    if plan.instances:
        grid.add_row("Instances needed", "", instances_words(plan))
    if plan.autoscale:
        grid.add_row("Autoscaling", "", autoscale_words(plan))
    for word, d in (("Central prediction", plan.central), ("Simpler, as good", plan.simpler)):
        if d is not None:
            upper = plan.upper and d is plan.simpler
            grid.add_row(word, metric_words(first, d.values[first]), f"{cut_words(d)}, {limits_words(d)}")
            grid.add_row("", "", f"at {load_words(d, plan)}: " + ", ".join(slo_words(d, plan, upper=upper)))
    return grid


def _table(plan: ServingPlan, rows: Sequence[Deployment], width: int) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("deployment", no_wrap=True)
    several = {n for n in ("device", "engine", "weights", "kv_cache") if len({d.plan[n] for d in rows}) > 1}
    shown = _SHOWN[: 2 if len(several) > 1 or width < _WIDE else len(_SHOWN)]
    names = list(dict.fromkeys([*plan.objectives, *(n for n in shown if all(n in d.values for d in rows))]))
    for name in (*sorted(several), "seqs", "tokens", "load", *(n.replace("_", " ") for n in names), "TTFT", "TPOT"):
        table.add_column(name.replace("tokens per s per", "tok/s per"), justify="right", no_wrap=name in several)
    for d in rows:
        table.add_row(
            cut_words(d),
            *(str(d.plan[n]) for n in sorted(several)),
            f"{d.plan['max_num_seqs']:,}",
            f"{d.plan['max_num_batched_tokens']:,}",
            f"{d.load:,.4g}" if d.load else "–",
            *(metric_words(n, d.values[n]) for n in names),
            milli(d.quantiles["ttft_s"]),
            milli(d.quantiles["tpot_s"]),
        )
    return Padding(table, (0, 0, 0, 2), expand=False)
