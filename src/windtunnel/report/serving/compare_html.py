"""Two runs of serving beside each other as one HTML file."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.charts.chart import Axis, Chart, Panels
from windtunnel.charts.forms import line, time_ticks
from windtunnel.quantities import shown_value
from windtunnel.report.html_shell import card, document, plot, table
from windtunnel.report.serving.figures import composition_figure
from windtunnel.report.serving.text import SATURATED, short

if TYPE_CHECKING:
    from windtunnel.report.serving.compare import ServingComparison

_TONES = {"A": "#e0862c", "B": "#1565c0"}
_SHARES = (("p50", 50), ("p75", 75), ("p90", 90), ("p95", 95), ("p99", 99))


def write(comparison: ServingComparison, path: str | Path) -> Path:
    """Write the comparison and return its path."""
    target = Path(path)
    target.write_text(render(comparison), encoding="utf-8")
    return target


def render(comparison: ServingComparison) -> str:
    """The whole document. Every text that comes from a scenario is escaped."""
    a, b = comparison.a, comparison.b
    names = [str(r.get("scenario_name") or "serving") for r in (a, b)]
    title = f"{names[0]} against {names[1] if names[1] != names[0] else 'itself as changed'}"
    bound = "".join(
        f"<div><b>{n} is bound by</b> {escape(str(r.get('bound_by')))}</div>"
        for n, r in (("A", a), ("B", b))
        if r.get("bound_by")
    )
    hot = "".join(
        f'<div class="card stop"><b>{n}: {escape(SATURATED)}</b></div>'
        for n, r in (("A", a), ("B", b))
        if r.get("saturated")
    )
    body = [
        f"<header><h1>{escape(title)}</h1></header>",
        hot,
        f'<div class="card bound"><div>{bound}</div></div>' if bound else "",
        _changes(comparison),
        card("Latencies", "percentiles of requests", plot(latencies(comparison))),
        _figures(comparison),
        _iterations(comparison),
    ]
    return document(title, body)


def latencies(comparison: ServingComparison) -> Panels:
    """Upper percentiles of TTFT, TPOT and E2E of both."""
    charts = []
    for key, title in (("ttft_s", "TTFT"), ("tpot_s", "TPOT"), ("e2e_s", "E2E")):
        ends: list[float] = []
        layers = []
        for name, result in (("A", comparison.a), ("B", comparison.b)):
            known = [(result[key][q], share) for q, share in _SHARES if result.get(key, {}).get(q)]
            ends += [v for v, _ in known]
            told = [f"{name}: p{s} {title} {short(v)}" for v, s in known]
            x, y = [float(v) for v, _ in known], [float(s) for _, s in known]
            layers += line(x, y, series=name, told=told, dots=True, strokeWidth=2.5)
        low, high = min(ends, default=1e-3) / 1.15, max(ends, default=1.0) * 1.15
        at, words = time_ticks(low, high)
        charts.append(
            Chart(
                title=f"{title}, percentiles of requests",
                layers=tuple(layers),
                x=Axis(title=f"{title}, log scale", kind="log", low=low, high=high, ticks=at, words=words),
                y=Axis(
                    title="percentile",
                    low=47.0,
                    high=101.0,
                    ticks=tuple(float(s) for _, s in _SHARES),
                    words=tuple(f"p{s}" for _, s in _SHARES),
                ),
                series=_TONES,
                height=220,
            )
        )
    return Panels(tuple(charts), columns=3)


def _figures(comparison: ServingComparison) -> str:
    lines = ['<tr><th></th><th class="n">A</th><th class="n">B</th><th class="n">B against A</th></tr>']
    for title, x, y, change, good in comparison.rows():
        style = {True: "good", False: "bad", None: ""}[good]
        lines.append(
            f'<tr><td>{escape(title)}</td><td class="n">{escape(x)}</td><td class="n">{escape(y)}</td>'
            f'<td class="n"><span class="{style}">{escape(change)}</span></td></tr>'
        )
    return card("Figures", "", table(lines[0], "".join(lines[1:])))


def _changes(comparison: ServingComparison) -> str:
    if not comparison.scenario:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code></td><td>{escape(shown_value(before))}</td>"
        f"<td>{escape(shown_value(after))}</td></tr>"
        for field, (before, after) in comparison.scenario.items()
    )
    return card("What differs", "", table("<tr><th>field</th><th>A</th><th>B</th></tr>", rows))


def _iterations(comparison: ServingComparison) -> str:
    parts = {
        f"{name}: {kind}": result["composition"][kind]
        for kind in comparison.iterations
        for name, result in (("A", comparison.a), ("B", comparison.b))
    }
    if not parts:
        return ""
    hint = "each at its own run's mean batch; seconds"
    return card("Where an iteration's time goes", hint, plot(composition_figure(parts, shares=False)))
