"""A sweep of loads as one HTML file: curves, the table, what was found, then the run at the knee."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.quantities import percent, seconds
from windtunnel.report.html_shell import card, plot, table
from windtunnel.report.serving import html as serving_html
from windtunnel.report.serving.load_sweep_figures import goodput_curve, load_curve, users_figure
from windtunnel.report.serving.load_sweep_terminal import knee_words, load_text, shown_points
from windtunnel.report.serving.text import short

if TYPE_CHECKING:
    from windtunnel.serving.results.serving_result import ServingResult
    from windtunnel.serving.sweeps.load_sweep import SweepResult


def write(result: SweepResult, at: ServingResult, path: str | Path) -> Path:
    """Write the report and return its path.

    Args:
        result: of the sweep.
        at: the run at its knee (without one: at the best goodput).
        path: where to.
    """
    target = Path(path)
    target.write_text(render(result, at), encoding="utf-8")
    return target


def render(result: SweepResult, at: ServingResult) -> str:
    """The whole document. Every text that comes from the scenario is escaped."""
    point = result.knee or result.best
    name = "the knee" if result.knee is not None else "the best goodput"
    title = f"At {name}: {load_text(result, point.load)}"
    parts = (_found(result), _curves(result), _table(result), f'<h2 class="part">{escape(title)}</h2>')
    return serving_html.render(at, before=parts)


def _found(result: SweepResult) -> str:
    rows = "".join(
        f"<div><b>{escape(title)}</b> <span{' class=bad' if title == 'Saturated' else ''}>{escape(text)}</span></div>"
        for title, text in knee_words(result)
    )
    note = f"{len(result.tried)} runs of the same requests in {seconds(result.elapsed_s)}"
    warned = serving_html.warnings(result.warnings)
    return f'<div class="card bound"><div>{rows}</div><span class="aside">{escape(note)}</span></div>{warned}'


def _curves(result: SweepResult) -> str:
    hint = "dots: loads of the sweep; between them, those that the search for the knee tried"
    left = card("Latency against load", hint, plot(load_curve(result), "half"))
    right = card("Goodput against load", "requests a second", plot(goodput_curve(result), "half"))
    users = card("Users against devices", "load grows along the line", plot(users_figure(result)))
    return f'<div class="row pair">{left}{right}</div>{users}'


def _table(result: SweepResult) -> str:
    names = [
        result.unit,
        "done/s",
        "tokens/s per device",
        "tokens/s per user",
        "TTFT p50",
        "p90",
        "p99",
        "TPOT p50",
        "p90",
        "p99",
        "E2E p50",
        "met",
        "goodput",
        "cache at most",
        "preemptions",
        "",
    ]
    lines = ["".join(f'<th class="n">{escape(name)}</th>' for name in names)]
    for point, mark in shown_points(result):
        r = point.result
        cells = [
            f"{point.load:,.4g}",
            f"{r.throughput_requests_per_s:,.4g}",
            f"{r.output_tokens_per_s_per_device:,.0f}",
            f"{r.output_tokens_per_s_per_user:,.1f}",
            *(short(getattr(d, q)) for d in (r.ttft_s, r.tpot_s) for q in ("p50", "p90", "p99")),
            short(r.e2e_s.p50),
            percent(r.slo_attainment) if result.objective else "–",
            f"{r.goodput_requests_per_s:,.4g}",
            percent(r.kv_cache_usage_max),
            f"{r.preemptions:,}",
            mark,
        ]
        style = ' class="bad"' if r.saturated else ""
        tags = ("<b>", "</b>") if mark and not r.saturated else ("", "")
        lines.append("".join(f'<td class="n"><span{style}>{tags[0]}{escape(c)}{tags[1]}</span></td>' for c in cells))
    body = "".join(f"<tr>{line}</tr>" for line in lines[1:])
    return card("Loads", "", table(f"<tr>{lines[0]}</tr>", body))
