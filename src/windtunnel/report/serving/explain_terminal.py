"""The terminal's view of what is behind a server's iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from windtunnel.report.serving.explain import Input, ServingExplanation


def iterations_summary(explanation: ServingExplanation) -> RenderableType:
    """Each kind of iteration: its classes of time, and the rates and coefficients behind them."""
    parts: list[RenderableType] = [Text(explanation.result.bound_by)]
    for one in explanation.iterations:
        classes = ", ".join(f"{name} {100 * s / one.seconds:.1f} %" for name, s in one.classes.items())
        parts.append(Text(f"\n{one.kind}: {1000 * one.seconds:.4g} ms at the mean batch: {classes}", style="bold"))
        table = Table(box=None, pad_edge=False)
        for name in ("input", "value", "exponent", "acts on", "grade", "source"):
            table.add_column(name, justify="right" if name in ("value", "exponent") else "left", overflow="fold")
        for x in one.inputs:
            table.add_row(x.name, _value(x), f"{x.exponent:+.3f}", ", ".join(x.classes), x.grade, x.source)
        parts.append(table)
    parts.append(Text("\nAn exponent of -0.6: 1 % more of the input makes the iteration 0.6 % shorter."))
    return Group(*parts)


def _value(x: Input) -> str:
    error = f" ± {100 * x.relative_error:.0f} %" if x.relative_error is not None else ""
    return f"{x.value:.4g} {x.unit}".strip() + error
