"""Devices ranked by cost per token, as a table of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from windtunnel.quantities import seconds
from windtunnel.report.plan.text import plan_words

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.planner.rank_devices import DeviceRanking, RankedDevice

_DEPLOYMENT = ("engine", "weights", "kv_cache", "tp", "pp", "dp", "ep", "replicas", "max_num_seqs")
_ALONE = {"pp": 1, "dp": 1, "ep": 1}
"""Axes of a deployment that are not said at one device."""


def device_table(found: DeviceRanking, width: int = 120) -> RenderableType:
    """Every priced device with its best plan, the cheapest per token first, and why the others have none.

    Args:
        found: the ranking.
        width: columns of the terminal.
    """
    times = ("TTFT", "TPOT") if found.serving else ("step time",)
    tokens = "generated tokens" if found.serving else "tokens"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("device", no_wrap=True)
    for name in ("devices", f"$ per 1M {tokens}", "$ per hour", f"{tokens}/s", *times, "W a device", "kWh per 1M"):
        table.add_column(name, justify="right", no_wrap=name in times)
    by_run = bool(found.ranked[0].objective)
    for name in ("days", "run cost", "t CO₂") if by_run else ():
        table.add_column(name, justify="right")
    table.add_column("plan", min_width=24, max_width=max(width - 100, 28))
    shared = _shared(found) if found.serving else {}
    for one in found.ranked:
        *cells, plan = _row(one, shared, serving=found.serving)
        table.add_row(*cells, *(_run_cells(one.whole_run) if by_run else ()), plan)
    lines: list[RenderableType] = [table]
    if shared:
        lines.append(_wrapped(f"\nAll plans: {plan_words(shared, list(shared))}", style="dim"))
    if found.without_plan:
        lines.append(Text("\nPriced devices without a plan", style="bold"))
        lines += [_wrapped(f"{device}: {why}") for device, why in found.without_plan.items()]
    if found.not_searched:
        lines.append(_wrapped(f"stopped before {', '.join(found.not_searched)}", style="bold yellow"))
    lines.append(Text())
    lines.append(
        _wrapped(
            "Prices are those of the catalogue; `windtunnel devices ID` has the source of each. "
            f"{len(found.not_priced)} devices have none there: a scenario that names one of them states "
            "`cluster.price_per_device_hour`.",
            style="dim",
        )
    )
    return Group(*lines)


def _shared(found: DeviceRanking) -> dict[str, Any]:
    """Fields in which all deployments agree, axes apart."""
    names = ("engine", "weights", "kv_cache", "max_num_seqs")
    first = found.ranked[0].plan
    return {n: first[n] for n in names if n in first and all(one.plan.get(n) == first[n] for one in found.ranked)}


def _row(one: RankedDevice, shared: dict[str, Any], *, serving: bool) -> list[str]:
    """Cells of a device."""
    if serving:
        times = [_time(one.ttft_s, None), _time(one.tpot_s, one.tpot_interval_s)]
        said = {k: v for k, v in one.plan.items() if k not in shared and _ALONE.get(k) != v}
        plan = plan_words(said, [name for name in _DEPLOYMENT if name in said])
    else:
        times = [_time(one.step_time_s, one.step_time_interval_s)]
        plan = plan_words(one.plan)
    kwh = one.energy_per_million_tokens_kwh
    return [
        one.device,
        f"{one.num_devices:,}",
        f"{one.cost_per_million_tokens:.3g}",
        f"{one.cost_per_hour:,.2f}",
        f"{one.tokens_per_s:,.0f}",
        *times,
        "–" if one.mean_power_w is None else f"{one.mean_power_w:,.0f}",
        "–" if kwh is None else f"{kwh:.3g}",
        plan + ("" if one.complete else " (search stopped)"),
    ]


def _run_cells(run: dict[str, Any]) -> tuple[str, str, str]:
    """Days, money and tonnes of carbon of a whole run; a dash where nothing says so."""

    def said(value: float, form: str) -> str:
        return "–" if value != value else format(value, form)

    return (
        said(run["days"], ",.4g"),
        "–" if run["run_cost"] != run["run_cost"] else f"${run['run_cost']:,.0f}",
        said(run["carbon_kg"] / 1000, ",.4g"),
    )


def _time(value_s: float | None, interval_s: tuple[float, float] | None) -> str:
    """A time with the ends of its interval below."""
    if value_s is None:
        return "–"
    ends = "" if interval_s is None else f"\n{seconds(interval_s[0])} to {seconds(interval_s[1])}"
    return seconds(value_s) + ends


def _wrapped(text: str, style: str = "") -> Padding:
    return Padding(Text(text, style=style), (0, 0, 0, 2), expand=False)
