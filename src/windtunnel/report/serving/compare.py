"""Two runs of serving beside each other: figures, what differs, and where an iteration's seconds went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windtunnel.quantities import count, dollars, percent, shown_value, signed_percent, signed_seconds
from windtunnel.report.serving.text import short
from windtunnel.training.comparison import changed, flat
from windtunnel.training.results.training_result import deltas

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

_ROWS: tuple[tuple[str, str, Callable[[float], str], int], ...] = (
    ("requests/s", "throughput_requests_per_s", lambda v: f"{v:,.4g}", 1),
    ("output tokens/s per device", "output_tokens_per_s_per_device", lambda v: f"{v:,.1f}", 1),
    ("output tokens/s per user", "output_tokens_per_s_per_user", lambda v: f"{v:,.1f}", 1),
    ("TTFT p50", "ttft_s.p50", short, -1),
    ("TTFT p99", "ttft_s.p99", short, -1),
    ("TPOT p50", "tpot_s.p50", short, -1),
    ("TPOT p99", "tpot_s.p99", short, -1),
    ("E2E p50", "e2e_s.p50", short, -1),
    ("E2E p99", "e2e_s.p99", short, -1),
    ("objective met", "slo_attainment", percent, 1),
    ("goodput", "goodput_requests_per_s", lambda v: f"{v:,.4g}/s", 1),
    ("cache at most", "kv_cache_usage_max", percent, -1),
    ("cache, tokens", "capacity.tokens", count, 1),
    ("preemptions", "preemptions", count, -1),
    ("watts per device", "power.mean_w_per_device", count, -1),
    ("J per output token", "power.energy_per_output_token_j", lambda v: f"{v:,.3g}", -1),
    ("cost per million output tokens", "cost_per_million_output_tokens", dollars, -1),
    ("devices", "num_devices", count, 0),
)
"""Title, key, how it is written, and whether more is better (1), worse (−1) or neither."""


@dataclass(frozen=True, slots=True)
class ServingComparison:
    """From `a` to `b`, plain results of `serve --json`."""

    a: dict[str, Any]
    b: dict[str, Any]
    figures: dict[str, tuple[float, float]]
    """Key → (a, b), of figures that both have."""
    iterations: dict[str, dict[str, float]]
    """Kind of iteration → class of time → seconds, b − a at each run's own mean batch, largest first."""
    scenario: dict[str, tuple[Any, Any]]
    """Scenario fields that differ → (a, b), dotted names."""

    def rows(self) -> list[tuple[str, str, str, str, bool | None]]:
        """Title, A, B, change, and whether B is better (None: neither), of figures that both have."""
        out = []
        for title, key, write, better in _ROWS:
            if key in self.figures:
                x, y = self.figures[key]
                change = "same" if x == y else signed_percent(y / x - 1) if x else ""
                out.append(
                    (title, write(x), write(y), change, None if x == y or not better else (y > x) == (better > 0))
                )
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        names = ("scenario_name", "saturated", "bound_by")
        return {
            "a": {n: self.a.get(n) for n in names},
            "b": {n: self.b.get(n) for n in names},
            "figures": {k: {"a": a, "b": b, "ratio": b / a if a else None} for k, (a, b) in self.figures.items()},
            "iterations": self.iterations,
            "scenario": {k: list(v) for k, v in self.scenario.items()},
        }


def compared(a: dict[str, Any], b: dict[str, Any]) -> ServingComparison:
    """Compare two results of `serve --json`."""
    flat_a, flat_b = flat(a), flat(b)
    both = {key: (flat_a.get(key), flat_b.get(key)) for _, key, _, _ in _ROWS}
    figures = {
        k: (float(x), float(y))
        for k, (x, y) in both.items()
        if isinstance(x, (int, float)) and isinstance(y, (int, float))
    }
    parts_a, parts_b = a.get("composition") or {}, b.get("composition") or {}
    iterations = {kind: deltas(parts_a[kind], parts_b[kind]) for kind in parts_a if kind in parts_b}
    outside = ("name", "schema_version")
    scenarios = [
        flat({k: _listed(v) for k, v in (r.get("scenario") or {}).items() if k not in outside}) for r in (a, b)
    ]
    return ServingComparison(a, b, figures, iterations, changed(*scenarios))


def _listed(value: Any) -> Any:
    """The same with lists of mappings as mappings by place, so that single fields compare."""
    if isinstance(value, dict):
        return {k: _listed(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and any(isinstance(v, dict) for v in value):
        return {str(i): _listed(v) for i, v in enumerate(value)}
    return value


def summary(result: ServingComparison) -> RenderableType:
    """The comparison as something `rich` prints."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    a, b = result.a, result.b
    head = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    same = a.get("scenario_name") == b.get("scenario_name")
    head.add_column("")
    for title in (
        f"A  {a.get('scenario_name')}",
        "B  as changed" if same else f"B  {b.get('scenario_name')}",
        "B to A",
    ):
        head.add_column(title, justify="right")
    for name, x, y, change, good in result.rows():
        head.add_row(name, x, y, Text(change, style={True: "green", False: "red", None: ""}[good]))
    parts: list[RenderableType] = [head]
    for name, r in (("A", a), ("B", b)):
        if r.get("saturated"):
            parts.append(Text(f"\n{name} is saturated: its latencies depend on how long the run was", style="bold red"))
    if result.scenario:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        for field, (before, after) in result.scenario.items():
            table.add_row(field, Text(shown_value(before), style="dim"), "→", shown_value(after))
        parts += [Text("\nWhat differs", style="bold"), Padding(table, (0, 0, 0, 2))]
    for kind, classes in result.iterations.items():
        whole = [sum(r["composition"][kind].values()) for r in (a, b)]
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column()
        table.add_column(justify="right")
        for name, delta in classes.items():
            if abs(delta) > 2e-3 * max(whole):
                table.add_row(name, Text(signed_seconds(delta), style="red" if delta > 0 else "green"))
        title = f"\nMean {kind}: {short(whole[0])} → {short(whole[1])}"
        parts += [Text(title, style="bold"), Padding(table, (0, 0, 0, 2))]
    return Group(*parts)
