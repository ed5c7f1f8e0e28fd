"""What `windtunnel compare` shows of two runs of serving: figures, what differs, latencies, an iteration's seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from windtunnel.quantities import count, dollars, percent, shown_value, signed_percent, signed_seconds, three
from windtunnel.serving.comparison import FIGURES
from windtunnel.views import charts_serve as charts
from windtunnel.views.serve_words import SATURATED, limits_of, short
from windtunnel.views.view import Block, Drawing, Lines, Section, Text, Tone, View, Words, chart, sections, table

if TYPE_CHECKING:
    from windtunnel.serving.comparison import ServingComparison

WORDS: dict[str, tuple[str, Callable[[float], str]]] = {
    "throughput_requests_per_s": ("requests/s", lambda v: f"{three(v)}"),
    "output_tokens_per_s_per_device": ("output tokens/s per device", three),
    "output_tokens_per_s_per_user": ("output tokens/s per user", three),
    "ttft_s.p50": ("TTFT p50", short),
    "ttft_s.p99": ("TTFT p99", short),
    "tpot_s.p50": ("TPOT p50", short),
    "tpot_s.p99": ("TPOT p99", short),
    "e2e_s.p50": ("E2E p50", short),
    "e2e_s.p99": ("E2E p99", short),
    "slo_attainment": ("objective met", percent),
    "goodput_requests_per_s": ("goodput", lambda v: f"{three(v)}/s"),
    "kv_cache_usage_max": ("cache at most", percent),
    "capacity.tokens": ("cache, tokens", count),
    "preemptions": ("preemptions", count),
    "power.mean_w_per_device": ("watts per device", count),
    "power.energy_per_output_token_j": ("J per output token", lambda v: f"{v:,.3g}"),
    "cost_per_million_output_tokens": ("cost per million output tokens", dollars),
    "num_devices": ("devices", count),
}
"""Key of a figure → its name, and how it is written."""


def view(comparison: ServingComparison) -> View:
    """From A to B."""
    runs = {"A": comparison.a, "B": comparison.b}
    first, second = (str(r.get("scenario_name") or "serving") for r in runs.values())
    same = first == second
    hot = [name for name, r in runs.items() if r.get("saturated")]
    differing = [
        (Text(field, code=True), Text(shown_value(before), "dim"), shown_value(after))
        for field, (before, after) in comparison.scenario.items()
    ]
    heads = ("", f"A  {first}", "B  as changed" if same else f"B  {second}", "B to A")
    figures = table(heads, _figures(comparison), numeric=(1, 2, 3))
    latencies = partial(charts.latencies_of_both, comparison.a, comparison.b)
    return View(
        title=f"{first} against {'itself as changed' if same else second}",
        lead=tuple(
            f"{name} is bound by {'; '.join(limits_of(r['bound_by']))}" for name, r in runs.items() if r.get("bound_by")
        ),
        verdict=Text(f"{' and '.join(hot)}: {SATURATED}", "bad") if hot else None,
        sections=sections(
            Section("Figures", (figures,)),
            Section("What differs", (table(("field", "A", "B"), differing),)),
            chart("Latencies", latencies, "percentiles of requests"),
            _iterations(comparison),
        ),
    )


def _figures(comparison: ServingComparison) -> Iterator[tuple[Words, ...]]:
    for key, (a, b) in comparison.figures.items():
        name, write = WORDS[key]
        change = "same" if a == b else signed_percent(b / a - 1) if a else ""
        better = FIGURES[key] * (b - a)
        tone: Tone = "good" if better > 0 else "bad" if better < 0 else ""
        yield name, write(a), write(b), Text(change, tone)


def _iterations(comparison: ServingComparison) -> Section | None:
    """Seconds by class of time that B's mean iteration adds to A's."""
    blocks: list[Block] = []
    parts: dict[str, dict[str, Any]] = {}
    for kind, classes in comparison.iterations.items():
        both = [r["composition"][kind] for r in (comparison.a, comparison.b)]
        parts |= {f"{name}: {kind}": own for name, own in zip("AB", both, strict=True)}
        whole = [sum(own.values()) for own in both]
        rows = [
            (name, Text(signed_seconds(delta), "bad" if delta > 0 else "good"))
            for name, delta in classes.items()
            if abs(delta) > 2e-3 * max(whole)
        ]
        title = Text(f"Mean {kind}: {short(whole[0])} → {short(whole[1])}", strong=True)
        blocks += [Lines((title,)), table(("", ""), rows, numeric=(1,))]
    if not blocks:
        return None
    drawn = Drawing(partial(charts.composition_figure, parts, shares=False))
    return Section("Where an iteration's time goes", (*blocks, drawn), "each at its own run's mean batch")
