"""A search's outcome on the terminal: the best plan, what came next, and why nothing else can be faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from windtunnel.report.quantities import gib, percent, seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.planner.plan import PlanResult


def plan_summary(result: PlanResult) -> RenderableType:
    """Everything about one search, as something `rich` prints."""
    best, proof = result.best, result.proof
    head = Text(best.scenario_name, style="bold")
    head.append(f"   {result.proof.candidates:,} plans in {seconds(result.elapsed_s)}", style="dim")
    lines: list[RenderableType] = [head, Text()]
    band = f"  80 % interval {seconds(best.interval.low)} to {seconds(best.interval.high)}"
    memory = f"{gib(best.peak_memory_reserved_bytes)} of {gib(best.memory.capacity_bytes)}"
    rest = f"{band}   MFU {percent(best.mfu)}   {memory}"
    lines.append(Text.assemble(("Best  ", "bold"), (seconds(best.step_time_s), "bold cyan"), rest))
    if result.written is not None:
        own = f"{seconds(result.written.step_time_s)}, {gib(result.written.peak_memory_reserved_bytes)}"
        gain = result.gain or 0.0
        words = f"the best is {100 * gain:.1f} % shorter" if gain > 0 else "nothing in the space that fits is faster"
        if not result.written.memory_fits:
            words += "; as written it does not fit"
        lines.append(Text(f"As written  {own}: {words}"))
    lines += [Text(), _table(result)]
    lines += [Text(), Text("Fastest possible by axis", style="bold"), _axes(result)]
    text = (
        f"{proof.candidates:,} candidates: {proof.pruned_by_memory:,} cannot fit, {proof.pruned_by_bound:,} have a "
        f"lower bound of at least the best, {proof.simulated:,} simulated"
    )
    if proof.refused:
        text += f", {proof.refused:,} refused by the simulator"
    if proof.complete:
        text += "; nothing in the space is faster."
    else:
        text += f"; stopped early: a plan up to {100 * proof.gap:.1f} % faster may exist."
    lines += [Text(), Text("Proof", style="bold"), Text("  " + text)]
    for rule, number in result.excluded.items():
        lines.append(Text(f"  {number:,} axis combinations left out: {rule}", style="dim"))
    for warning in best.warnings:
        lines.append(Text(f"warning: {warning}", style="yellow"))
    return Group(*lines)


def _table(result: PlanResult) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown = [r.plan for r in result.frontier]
    names = [n for n in shown[0] if n in ("tp", "pp", "mbs", "recompute") or any(p[n] != _PLAIN.get(n) for p in shown)]
    for name in names:
        table.add_column(name, justify="right")
    for name in ("step", "bound", "slower", "memory", "fits"):
        table.add_column(name, justify="right")
    fastest = result.best.step_time_s
    for r in result.frontier:
        memory = "–" if r.reserved_bytes is None else gib(r.reserved_bytes)
        fits = {True: "yes", False: "no", None: "–"}[r.fits]
        style = "bold" if r.fits and r.step_time_s == fastest else ""
        table.add_row(
            *(_value(r.plan[n]) for n in names), seconds(r.step_time_s), seconds(r.bound_s),
            f"{100 * (r.step_time_s / fastest - 1):+.1f} %", memory, fits, style=style,
        )  # fmt: skip
    return table


_PLAIN: dict[str, Any] = {"cp": 1, "vpp": 1, "ep": 1, "etp": 1, "dp": 1, "zero": None}


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{k} {v}" for k, v in value.items()) or "–"
    return "–" if value is None else str(value)


def _axes(result: PlanResult) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False)
    for axis, values in result.by_axis.items():
        cells = [f"{axis} {v}: {seconds(s)}" for v, s in sorted(values.items(), key=lambda kv: int(kv[0]))]
        table.add_row("  " + "   ".join(cells))
    return table
