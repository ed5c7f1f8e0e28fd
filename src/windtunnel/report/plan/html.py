"""A search as one HTML file: the best plan, the table, time against memory, tp × pp, why, limits, proof, stability."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.quantities import count, gib, percent, seconds, signed_percent
from windtunnel.report.html_shell import card, document, plot, table, tile
from windtunnel.report.plan.figures import front_figure, heat_figure, memory_figure, stability_figure
from windtunnel.report.plan.text import (
    best_row,
    best_words,
    cell_words,
    choice_words,
    cluster_words,
    field_text,
    flat,
    gap_words,
    instead_words,
    limit_words,
    margin_words,
    metric_words,
    plan_words,
    proof_words,
    quantity,
    resource_words,
    table_names,
    worse,
)
from windtunnel.report.plan.whole_run import HEAD, finalist_rows, run_line, run_proof_words
from windtunnel.training.comparison import difference
from windtunnel.training.results.one_line import fit_line, next_lines, workload_line
from windtunnel.training.results.serialise import plain
from windtunnel.views.compare import waterfall
from windtunnel.writers.html import _block

if TYPE_CHECKING:
    from windtunnel.planner.analysis.explain_best import Why
    from windtunnel.planner.result import PlanResult, Ranked


def write(result: PlanResult, path: str | Path) -> Path:
    """Write the report and return its path."""
    target = Path(path)
    target.write_text(render(result), encoding="utf-8")
    return target


def render(result: PlanResult) -> str:
    """The whole document. Every text that comes from the scenario is escaped."""
    title = result.best.scenario_name or "plan"
    body = [
        _header(result),
        _stopped(result),
        _tiles(result),
        _warnings(result),
        _front(result),
        _memory_and_heat(result),
        _finalists(result),
        _table("Simulated plans", result.frontier, result),
        _why(result),
        _limits(result),
        _stability(result),
        _proof(result),
        _scenario(result),
    ]
    return document(f"{title}: plan", body)


def _header(result: PlanResult) -> str:
    best = result.best
    goal = ", ".join(metric_words(name) for name in result.objectives)
    chips = "".join(f'<span class="chip">{escape(word)}</span>' for word in best_words(result).split(" · "))
    return (
        f"<header><h1>{escape(best.scenario_name or 'Plan')}</h1>"
        f'<p class="sub">{escape(workload_line(best))} · best {escape(goal)} of {result.proof.candidates:,} plans</p>'
        f'<div class="chips">{chips}</div></header>'
    )


def _stopped(result: PlanResult) -> str:
    if result.proof.complete:
        return ""
    return f'<div class="card warn"><b>Stopped:</b> this is the best so far; {escape(gap_words(result))}</div>'


def _tiles(result: PlanResult) -> str:
    best, choice = result.best, result.choice
    band = best.interval
    level = f"{100 * band.level:.0f} % interval {seconds(band.low)} to {seconds(band.high)} · {escape(band.grade)}"
    if (told := next_lines(best.measure_next)) is not None:
        level += f"<br>measure next: {escape(told[0])}: <code>{escape(told[1])}</code>"
    name = "Fastest as simulated" if choice is not None else "Best plan"
    tiles = [tile(name, seconds(best.step_time_s), f"{escape(best_words(result))}<br>{level}")]
    if choice is not None and choice.same:
        tiles.append(tile("Recommended", "the same plan", escape(choice_words(choice))))
    elif choice is not None:
        more = f"<small> {signed_percent(choice.slower)}</small>"
        note = f"{escape(plan_words(choice.plan))}<br>{escape(choice_words(choice))}"
        tiles.append(tile("Recommended", seconds(choice.step_time_s) + more, note))
    else:
        tiles.append(_objective(result))
    if result.written is not None:
        gain = result.gain or 0.0
        words = f"the best is {100 * gain:.1f} % shorter" if gain > 0 else "nothing in the space that fits is faster"
        note = f"{escape(plan_words(result.written.plan))}<br>{words}"
        tiles.append(tile("As written", seconds(result.written.step_time_s), note))
    for name, other_s in result.compared.items():
        note = escape(instead_words(best, other_s))
        tiles.append(tile(escape(name.capitalize()), "–" if other_s is None else seconds(other_s), note))
    rate = f"{count(best.tokens_per_s_per_device)} tokens/s per device<br>{count(best.tokens_per_s)} in all"
    tiles.append(tile("MFU", percent(best.mfu), rate))
    style = "good" if best.memory_fits else "bad"
    size = f"{gib(best.peak_memory_reserved_bytes)}<small> of {gib(best.memory.capacity_bytes)}</small>"
    tiles.append(tile("Memory, reserved", size, escape(fit_line(best)), style))
    return f'<div class="tiles plans">{"".join(tiles)}</div>'


def _objective(result: PlanResult) -> str:
    from windtunnel.planner.objectives import METRICS

    first = METRICS[result.objectives[0]]
    if first.name == "step_time" and len(result.objectives) == 1:
        return tile("Throughput", count(result.best.tokens_per_s), "tokens/s on all devices")
    row = best_row(result)
    rest = {} if row is None else {n: v for n, v in row.values.items() if n not in (first.name, "step_time")}
    notes = [f"{metric_words(n)} {quantity(v, METRICS[n].unit)}" for n, v in rest.items()]
    note = escape("; ".join([first.meaning.replace("`", ""), *notes]))
    return tile(escape(metric_words(first.name)), escape(quantity(result.proof.best, first.unit)), note)


def _warnings(result: PlanResult) -> str:
    if not result.best.warnings:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in result.best.warnings)
    return f'<div class="card warn"><b>Warnings</b><ul>{items}</ul></div>'


def _front(result: PlanResult) -> str:
    if not result.front:
        return ""
    names = ", ".join(metric_words(name) for name in result.objectives)
    hint = f"{len(result.front)} plans that no other beats in all of {names}"
    return card("Pareto front", hint, plot(front_figure(result))) + _table("Plans of the front", result.front, result)


def _finalists(result: PlanResult) -> str:
    """Plans whose whole runs were replicated."""
    if not result.finalists:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in HEAD)
    rows = finalist_rows(result)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return card("Whole runs of the finalists", run_line(result), table(head, body))


def _memory_and_heat(result: PlanResult) -> str:
    hint = "simulated plans, and the line that bounds put under every plan of the space"
    memory = card("Time against memory", hint if result.why else "simulated plans", plot(memory_figure(result), "half"))
    if result.why is None or not result.why.cells:
        known = [r for r in result.frontier if r.reserved_bytes is not None]
        return memory if len(known) > 1 else ""
    hint = "seconds; bold and framed: simulated; ≥: a bound; empty: no plan keeps to the limits"
    heat = card("Best of every tp and pp", hint, plot(heat_figure(result.why), "half"))
    return f'<div class="row pair">{memory}{heat}</div>'


def _table(title: str, rows: tuple[Ranked, ...], result: PlanResult) -> str:
    from windtunnel.planner.objectives import METRICS

    if not rows:
        return ""
    names, shared = table_names(rows)
    metrics = [n for n in dict.fromkeys(n for r in rows for n in r.values) if n != "step_time"]
    heads = [*names, "step", "bound", "worse", *(metric_words(n) for n in metrics), "memory", "fits"]
    fastest = result.best.step_time_s
    lines = ["".join(f'<th class="n">{escape(head)}</th>' for head in heads)]
    for r in rows:
        own = flat(r)
        fits = {True: "yes", False: "no", None: "not asked"}[r.fits]
        cells = [
            *(field_text(own.get(n)) for n in names),
            seconds(r.step_time_s),
            seconds(r.bound_s),
            signed_percent(worse(r, result)),
            *(quantity(r.values[n], METRICS[n].unit) if n in r.values else "–" for n in metrics),
            "–" if r.reserved_bytes is None else gib(r.reserved_bytes),
            f"breaks {', '.join(r.missed)}" if r.missed else fits,
        ]
        best = bool(r.fits) and not r.missed and r.step_time_s == fastest
        tags = ("<b>", "</b>") if best else ("", "")
        lines.append("".join(f'<td class="n">{tags[0]}{escape(cell)}{tags[1]}</td>' for cell in cells))
    body = "".join(f"<tr>{line}</tr>" for line in lines[1:])
    hint = f"the same in all: {plan_words(shared, [*shared])}"
    return card(title, hint, table(lines[0], body))


def _why(result: PlanResult) -> str:
    why = result.why
    if why is None:
        return ""
    left = ""
    if why.runner_up is not None and why.runner_up_plan is not None:
        words = plan_words(why.runner_up_plan, [*why.runner_up_plan])
        compared = difference(
            replace(result.best, scenario_name="best"), replace(why.runner_up, scenario_name="next layout")
        )
        sure = ""
        if compared.paired is not None:
            p = compared.paired
            verdict = p.verdict.replace("A is", "the best is").replace("B is", "the next is")
            sure = f'<p class="sub">{escape(verdict)}</p>'
        more = signed_percent(why.runner_up.step_time_s / result.best.step_time_s - 1)
        figure = _block(waterfall("best", result.best.step_time_s, compared.seconds_by_class, "next layout"))
        hint = f"{words}: {seconds(why.runner_up.step_time_s)}, {more}"
        if result.objectives[0] != "step_time":
            hint += f"; {metric_words(result.objectives[0])} {100 * why.runner_up_worse:.1f} % worse"
        left = card("Why not another layout", hint, sure + figure)
    return f'<div class="row two">{left}{_axes(why)}</div>' if left else _axes(why)


def _axes(why: Why) -> str:
    parts = []
    least = min((c.shown_s for c in why.cells), default=1.0)
    for axis in ("tp", "pp"):
        rows = []
        for value, cell in why.best_by(axis).items():
            other = "pp" if axis == "tp" else "tp"
            width = 100 * least / cell.shown_s
            rows.append(
                f'<tr><td class="n">{value}</td><td class="n">{escape(cell_words(cell))}</td>'
                f'<td class="n">{other} {getattr(cell, other)}</td>'
                f'<td class="n">{signed_percent(cell.shown_s / least - 1)}</td>'
                f'<td><div class="minibar"><i style="width:{width:.1f}%"></i></div></td></tr>'
            )
        titles = f'<th class="n">{axis}</th><th class="n">best step</th><th class="n">with</th><th></th><th>speed</th>'
        head = f"<tr>{titles}</tr>"
        parts.append(table(head, "".join(rows)))
    return card("Best of every tp, of every pp", "≥: a bound, not simulated", "<br>".join(parts))


def _limits(result: PlanResult) -> str:
    if result.why is None or not result.why.limits:
        margin = margin_words(result)
        return "" if margin is None else card("What limits cost", "of what was simulated", escape(margin))
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in map(limit_words, result.why.limits)
    )
    hint = "the search again without one limit at a time"
    limits, clusters = card("What limits cost", hint, f"<table>{rows}</table>"), _clusters(result)
    return f'<div class="row two">{limits}{clusters}</div>' if clusters else limits


def _clusters(result: PlanResult) -> str:
    if result.why is None or not result.why.clusters:
        return ""
    words = [cluster_words(c, result.objectives[0]).split(": ") for c in result.why.clusters]
    rows = "".join(f'<tr><td>{escape(name)}</td><td class="n">{escape(value)}</td></tr>' for name, value in words)
    goal = metric_words(result.objectives[0])
    return card(f"Best {goal} of every cluster", "≥ or ≤: a bound, not simulated", f"<table>{rows}</table>")


def _stability(result: PlanResult) -> str:
    told = result.stability
    if told is None or not told.resources:
        return ""
    rows = []
    for resource in told.resources:
        name, lines = resource_words(resource)
        rows.append(f"<tr><td>{escape(name)}</td><td>{'<br>'.join(map(escape, lines))}</td></tr>")
    ended = "" if told.complete else "; interrupted"
    words = plan_words({k: v for k, v in told.layout.items() if k in ("tp", "pp", "cp", "ep", "dp")})
    hint = f"one resource at a time; {told.searches} exact searches{ended}"
    table = f"<table>{''.join(rows)}</table>"
    return card(f"How far {words} stays the best", hint, plot(stability_figure(told)) + table)


def _proof(result: PlanResult) -> str:
    items = [
        *proof_words(result),
        *run_proof_words(result),
        *(f"{n:,} axis combinations left out: {rule}" for rule, n in result.excluded.items()),
    ]
    lines = "".join(f"<li>{escape(item)}</li>" for item in items)
    hint = f"{seconds(result.elapsed_s)}; {count(result.screened_per_s)} plans bounded a second"
    return card("Proof", hint, f"<ul>{lines}</ul>")


def _scenario(result: PlanResult) -> str:
    import yaml

    def text(scenario: object) -> str:
        dumped = yaml.safe_dump(plain(scenario), sort_keys=False, allow_unicode=True, default_flow_style=None)
        return escape(str(dumped))

    taken = ""
    if result.choice is not None and not result.choice.same:
        scenario = text(result.choice.scenario)
        taken = f"<details><summary>Scenario of the recommended plan</summary><pre>{scenario}</pre></details>"
    return (
        f'<div class="card"><details><summary>Scenario of the best plan</summary><pre>{text(result.scenario)}</pre>'
        f"</details>{taken}</div><footer>windtunnel <code>{escape(result.best.version)}</code> · input hash "
        f"<code>{escape(result.best.input_hash)}</code> · interval from {escape(result.best.interval.basis)}</footer>"
    )
