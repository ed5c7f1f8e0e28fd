"""Whether a plan fits, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windtunnel.quantities import gib, percent

if TYPE_CHECKING:
    from rich.console import RenderableType


def fit_summary(fit: dict[str, Any]) -> RenderableType:
    """The answer, what is largest, and the nearest plans that fit.

    Args:
        fit: `api.FitResult.to_dict()`.
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    reserved, capacity = fit["reserved_bytes"], fit["capacity_bytes"]
    if fit["fits"]:
        answer = Text(
            f"fits: {gib(reserved)} of {gib(capacity)} reserved, {gib(capacity - reserved)} free", style="green"
        )
    else:
        needs = f"{gib(reserved)} of {gib(capacity)} reserved, {gib(fit['over_bytes'])} too much"
        answer = Text(f"does not fit: {needs}", style="bold red")
    likely = fit.get("fit_probability")
    if likely is not None:
        answer.append(f"; probability to fit {percent(likely)}", style="default")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for kind, size in sorted(fit["at_peak"].items(), key=lambda item: -item[1]):
        table.add_row(kind, gib(size), percent(size / capacity))
    nearest = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    nearest.add_row("largest micro-batch that fits", _or_none(fit["largest_mbs"], "none at this global batch"))
    nearest.add_row("fewest devices that fit", _or_none(fit["fewest_devices"], "none found with this tp, pp and cp"))
    for change in fit.get("changes", ()):
        nearest.add_row(f"fits with {', '.join(change['settings'])}", f"on {change['devices']:,} devices")
    return Group(
        answer, Text(f"\nAt the peak, stage {fit['stage']}", style="bold"), Padding(table, (0, 0, 1, 2)), nearest
    )


def _or_none(value: int | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:,}"
