"""A search for a deployment as one HTML file: the best, throughput against speed, tables, the proof."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.quantities import seconds
from windtunnel.report import html_shell
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
    from windtunnel.planner.serving.plan_deployment import Deployment, ServingPlan


def write(plan: ServingPlan, path: Path) -> Path:
    """Write the report; returns its path."""
    path.write_text(render(plan), encoding="utf-8")
    return path


def render(plan: ServingPlan) -> str:
    """The report as text."""
    from windtunnel.report.plan_serving.figures import pareto

    best, first = plan.best, plan.objectives[0]
    tiles = [
        html_shell.tile(
            escape(f"best {first.replace('_', ' ')}"),
            escape(metric_words(first, best.values[first])),
            escape(f"{cut_words(best)} on {best.plan['device']}"),
        ),
        html_shell.tile("load", escape(load_words(best, plan)), escape(", ".join(slo_words(best, plan)))),
        html_shell.tile(
            "tokens/s a device",
            f"{best.values['tokens_per_s_per_device']:,.4g}",
            f"{best.values['tokens_per_s_per_user']:,.4g} tokens/s a user",
        ),
        html_shell.tile(
            "search",
            f"{plan.proof.candidates:,}",
            escape(f"deployments, {plan.evaluated:,} simulated, in {seconds(plan.elapsed_s)}"),
        ),
    ]
    body = [
        f"<header><h1>{escape(plan.result.scenario_name)}</h1>"
        f'<p class="sub">{escape(where_words(best))}; {escape(limits_words(best))}; {escape(certain_words(plan))}</p>'
        "</header>",
        f'<div class="tiles">{"".join(tiles)}</div>',
        html_shell.card(
            "Throughput against speed",
            "Each point is a simulated deployment that keeps the objective; open ones at the central prediction alone. "
            "Nothing simulated is better in both than the line.",
            html_shell.plot(pareto(plan)),
        ),
        html_shell.card("Best of each cut", "", _table(plan, plan.frontier)),
        *(
            [html_shell.card("Pareto front", "Of points within 1 % one is shown.", _table(plan, thinned(plan)))]
            if plan.front
            else []
        ),
        html_shell.card("Why not another", "", _list(why_words(plan))),
        html_shell.card("Proof", "What was left out with certainty, and what was simulated.", _list(proof_words(plan))),
    ]
    if plan.instances:
        words = [w for w in (instances_words(plan), autoscale_words(plan)) if w]
        body.insert(3, html_shell.card("Autoscaling", "Fewest instances of this cut.", _list(words)))
    if plan.central is not None:
        text = f"{cut_words(plan.central)}, {limits_words(plan.central)}, at {load_words(plan.central, plan)}"
        body.insert(3, html_shell.card("At the central prediction alone", "", _list([text])))
    if needed := ends_words(plan):
        told = next_words(plan)
        following = [f"{told[0]}: {told[1]}"] if told else []
        body.insert(3, html_shell.card("Devices needed", "", _list([needed, *following])))
    if plan.notes or plan.result.warnings:
        body.append(html_shell.card("Notes", "", _list([*plan.notes, *plan.result.warnings])))
    return html_shell.document(plan.result.scenario_name, body)


def _list(texts: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(t)}</li>" for t in texts) + "</ul>"


def _table(plan: ServingPlan, rows: Sequence[Deployment]) -> str:
    names = list(dict.fromkeys([*plan.objectives, "devices", "tokens_per_s_per_device", "tokens_per_s_per_user"]))
    head = ["deployment", "device", "engine", "max_num_seqs", "max_num_batched_tokens", "load"]
    head += [n.replace("_", " ") for n in names] + ["TTFT", "TPOT"]
    cells = [
        [
            cut_words(d),
            d.plan["device"],
            d.plan["engine"],
            f"{d.plan['max_num_seqs']:,}",
            f"{d.plan['max_num_batched_tokens']:,}",
            load_words(d, plan),
            *(metric_words(n, d.values[n]) for n in names),
            milli(d.quantiles["ttft_s"]),
            milli(d.quantiles["tpot_s"]),
        ]
        for d in rows
    ]
    out = "".join(f"<th>{escape(h)}</th>" for h in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(str(c))}</td>" for c in row) + "</tr>" for row in cells)
    return html_shell.table(f"<tr>{out}</tr>", lines)
