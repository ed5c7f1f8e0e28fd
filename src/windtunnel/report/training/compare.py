"""The difference between two predictions, class by class: what a waterfall from one step time to the other shows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from windtunnel.charts.chart import Axis
from windtunnel.charts.forms import Bar, Bars
from windtunnel.quantities import count, gib, percent, seconds, signed_number, signed_percent, value_text
from windtunnel.training.compare_results import between
from windtunnel.training.results.training_result import deltas

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.charts.chart import Chart
    from windtunnel.training.results.training_result import TrainingResult
    from windtunnel.training.uncertainty.plan_difference import PairedDifference

_LONGER, _SHORTER, _WHOLE = "#c0392b", "#2e8b57", "#37474f"
_FIGURES = ("step_time_s", "tokens_per_s_per_device", "mfu", "hfu", "peak_memory_reserved_bytes", "num_devices")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """From `a` to `b`. Seconds and bytes are b − a; each partition sums to its total."""

    a: TrainingResult
    b: TrainingResult
    seconds_by_class: dict[str, float]
    """Class of time → difference, largest first; sums to the difference of the step times."""
    bytes_by_kind: dict[str, float]
    """Kind of tensor → difference at the two peaks; sums to the difference of the allocated peaks."""
    plan: dict[str, tuple[Any, Any]]
    """Plan fields that differ → (a, b)."""
    scenario: dict[str, tuple[Any, Any]]
    """Other scenario fields that differ → (a, b), dotted names."""
    paired: PairedDifference | None = None
    """How sure the order of the two step times is; None where a stored result can no longer be read as a scenario,
    or a cluster is heterogeneous."""

    @property
    def name_of_b(self) -> str:
        """Name of the second scenario; "as changed" where both have one name."""
        return "as changed" if self.a.scenario_name == self.b.scenario_name else self.b.scenario_name

    @property
    def chosen(self) -> dict[str, tuple[Any, Any]]:
        """Plan fields that differ and that somebody chose; the number of micro-batches follows from the others."""
        return {name: values for name, values in self.plan.items() if name != "m"}

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "a": _figures(self.a),
            "b": _figures(self.b),
            "step_time_difference_s": self.b.step_time_s - self.a.step_time_s,
            "step_time_ratio": self.b.step_time_s / self.a.step_time_s,
            "seconds_by_class": self.seconds_by_class,
            "bytes_by_kind": self.bytes_by_kind,
            "plan": {k: list(v) for k, v in self.plan.items()},
            "scenario": {k: list(v) for k, v in self.scenario.items()},
            "paired": asdict(self.paired) if self.paired else None,
        }

    def figure(self, a: str = "", b: str = "") -> Chart:
        """Waterfall from one step time to the other; every bar of a step time begins at zero.

        Args:
            a: name of the first; by default its scenario's.
            b: name of the second.
        """
        first, last = self.a.step_time_s, self.b.step_time_s
        bars = [Bar(name=a or f"A: {self.a.scenario_name}", end=first, colour=_WHOLE, text=seconds(first))]
        at = first
        for name, delta in without_crumbs(self.seconds_by_class, 1e-3 * max(first, last)).items():
            tone = _LONGER if delta > 0 else _SHORTER
            bars.append(Bar(name=name, start=at, end=at + delta, colour=tone, text=signed_seconds(delta)))
            at += delta
        bars.append(Bar(name=b or f"B: {self.name_of_b}", end=last, colour=_WHOLE, text=seconds(last)))
        return Bars(
            title="Seconds by class of time on the way from A to B",
            bars=tuple(bars),
            layers=(),
            x=Axis(title="seconds"),
            y=Axis(kind="band"),
        )


def difference(a: TrainingResult, b: TrainingResult) -> Comparison:
    """Compare two predictions.

    Example:
        `difference(a, b).seconds_by_class` says how many seconds each class of time adds on the way from a to b.
    """
    return Comparison(
        a=a,
        b=b,
        seconds_by_class=deltas(a.breakdown, b.breakdown),
        bytes_by_kind=deltas(a.memory.at_peak, b.memory.at_peak),
        plan=changed(flat(a.plan), flat(b.plan)),
        scenario=changed(flat(_outside_plan(a.scenario)), flat(_outside_plan(b.scenario))),
        paired=between(a, b),
    )


def comparison_summary(comparison: Comparison) -> RenderableType:
    """The comparison as something `rich` prints."""
    from rich import box
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    a, b = comparison.a, comparison.b
    head = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title in ("", f"A  {a.scenario_name}", f"B  {comparison.name_of_b}", "B against A"):
        head.add_column(title, justify="left" if not title else "right")
    head.add_row("step time", seconds(a.step_time_s), seconds(b.step_time_s), _ratio(b.step_time_s / a.step_time_s))
    head.add_row(
        "tokens/s per device",
        count(a.tokens_per_s_per_device),
        count(b.tokens_per_s_per_device),
        _ratio(b.tokens_per_s_per_device / a.tokens_per_s_per_device),
    )
    head.add_row("MFU", percent(a.mfu), percent(b.mfu), f"{signed_number(100 * (b.mfu - a.mfu))} points")
    head.add_row(
        "memory reserved",
        gib(a.peak_memory_reserved_bytes),
        gib(b.peak_memory_reserved_bytes),
        signed_gib(b.peak_memory_reserved_bytes - a.peak_memory_reserved_bytes),
    )
    head.add_row("devices", f"{a.num_devices:,}", f"{b.num_devices:,}", _ratio(b.num_devices / a.num_devices))
    parts: list[RenderableType] = [head]
    if comparison.paired:
        p = comparison.paired
        band = f"step time of B against A {_ratio(p.low)} to {_ratio(p.high)} ({100 * p.level:.0f} % band, {p.grade})"
        parts += [Text(f"\n{p.verdict[0].upper()}{p.verdict[1:]}; {band}", style="bold"), Text(p.basis, style="dim")]
    changes = comparison.scenario | {f"plan.{k}": v for k, v in comparison.chosen.items()}
    if changes:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        for field, (before, after) in changes.items():
            table.add_row(field, Text(shown_value(before), style="dim"), "→", shown_value(after))
        parts += [Text("\nWhat differs", style="bold"), Padding(table, (0, 0, 0, 2))]
    parts += [Text("\nFrom A to B", style="bold"), Padding(_waterfall(comparison), (0, 0, 0, 2))]
    if comparison.bytes_by_kind:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        for kind, delta in comparison.bytes_by_kind.items():
            table.add_row(kind, Text(signed_gib(delta), style="red" if delta > 0 else "green"))
        parts += [Text("\nMemory at the peak, B − A", style="bold"), Padding(table, (0, 0, 0, 2))]
    return Group(*parts)


def _waterfall(comparison: Comparison) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    a, b = comparison.a.step_time_s, comparison.b.step_time_s
    shown = without_crumbs(comparison.seconds_by_class, 1e-3 * max(a, b))
    running, levels = a, [a]
    for delta in shown.values():
        running += delta
        levels.append(running)
    low = min(levels) - 0.15 * (max(levels) - min(levels) or a)
    scale = 44 / (max(levels) - low)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_row("A", seconds(a), Text("█" * round((a - low) * scale), style="bright_black"))
    at = a
    for name, delta in shown.items():
        begin, length = min(at, at + delta), abs(delta)
        style = "red" if delta > 0 else "green"
        bar = Text(" " * round((begin - low) * scale))
        bar.append("█" * max(round(length * scale), 0) or "▏", style=style)
        table.add_row(name, Text(signed_seconds(delta), style=style), bar)
        at += delta
    table.add_row("B", seconds(b), Text("█" * round((b - low) * scale), style="bright_black"), style="bold")
    return table


def without_crumbs(deltas: dict[str, float], smallest: float) -> dict[str, float]:
    """Entries below `smallest` as one, so that the sum stays."""
    deltas = {name: delta for name, delta in deltas.items() if abs(delta) > 1e-6 * smallest}
    crumbs = {name: delta for name, delta in deltas.items() if abs(delta) < smallest}
    if len(crumbs) < 2:
        return deltas
    kept = {name: delta for name, delta in deltas.items() if name not in crumbs}
    return kept | {f"{len(crumbs)} smaller": sum(crumbs.values())}


def _figures(result: TrainingResult) -> dict[str, Any]:
    return {"scenario_name": result.scenario_name} | {name: getattr(result, name) for name in _FIGURES}


def _outside_plan(scenario: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in scenario.items() if k not in ("plan", "name", "schema_version")}


def flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested fields under dotted names."""
    out: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict) and value:
            out |= flat(value, f"{prefix}{key}.")
        else:
            out[prefix + key] = value
    return out


def changed(a: dict[str, Any], b: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Fields that differ → (a, b)."""
    names = [*a, *(name for name in b if name not in a)]
    return {name: (a.get(name), b.get(name)) for name in names if _plain(a.get(name)) != _plain(b.get(name))}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def shown_value(value: Any) -> str:
    """A field's value, equal lists shortened."""
    if isinstance(value, float) and value.is_integer():
        return f"{value:,.0f}"
    return "not given" if value is None else value_text(value)


def signed_seconds(value: float) -> str:
    """Seconds with a sign."""
    return ("+" if value > 0 else "−" if value < 0 else "") + seconds(abs(value))


def signed_gib(value: float) -> str:
    """Bytes with a sign."""
    return ("+" if value > 0 else "−" if value < 0 else "") + gib(abs(value))


def _ratio(value: float) -> str:
    return signed_percent(value - 1)
