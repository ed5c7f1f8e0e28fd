"""A serving result in the output cell of a notebook: its figures in a table, and its latencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windtunnel.charts.chart import Panels
from windtunnel.charts.page import figures_table, in_notebook

if TYPE_CHECKING:
    from windtunnel.serving.results.metrics import Distribution


def figures(result: Any) -> list[tuple[str, str]]:
    """(name, figure with its unit) of what a reader asks first."""
    rate = f"{result.throughput_requests_per_s:,.4g} requests/s, {result.output_tokens_per_s:,.0f} output tokens/s"
    met = f"{result.goodput_requests_per_s:,.4g} requests/s; {100 * result.slo_attainment:.1f} % meet the objective"
    return [
        ("", "saturated: there is no steady state" if result.saturated else ""),
        ("TTFT", _latency(result.ttft_s)),
        ("TPOT", _latency(result.tpot_s)),
        ("E2E", _latency(result.e2e_s)),
        ("throughput", f"{rate} on {result.num_devices:,} devices"),
        ("goodput", met),
        ("cache in use", f"{100 * result.kv_cache_usage_max:.1f} % at most"),
        ("bound by", str(result.bound_by or "")),
    ]


def _latency(d: Distribution) -> str:
    """Median and upper percentiles of a latency."""
    return f"median {_ms(d.p50)}, p90 {_ms(d.p90)}, p99 {_ms(d.p99)}" if d.count else ""


def _ms(value_s: float) -> str:
    return f"{value_s:.3g} s" if value_s >= 1 else f"{value_s * 1e3:.3g} ms"


def html(result: Any) -> str:
    """Table and figure as HTML; a stored result has no figure."""
    table = figures_table(result.scenario_name or "serving", figures(result))
    if not result.table or result.record is None:
        return in_notebook(table)
    return in_notebook(table + Panels(result.figure().charts[:3], columns=3).html())


def line(result: Any) -> str:
    """The result in a line."""
    own = dict(figures(result))
    more = ", saturated" if result.saturated else ""
    name = result.scenario_name or "serving"
    return f"<{name}: TTFT {own['TTFT']}; TPOT {own['TPOT']}; {own['throughput']}{more}>"
