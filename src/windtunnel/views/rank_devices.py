"""What `windtunnel plan` shows where any device may be taken: each priced one with its best plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windtunnel.quantities import seconds
from windtunnel.views.plan_labels import plan_words
from windtunnel.views.view import Lines, Section, Text, View, Words, pairs, sections, table

if TYPE_CHECKING:
    from windtunnel.planner.rank_devices import DeviceRanking, RankedDevice

_DEPLOYMENT = ("engine", "weights", "kv_cache", "tp", "pp", "dp", "ep", "replicas", "max_num_seqs")
_ALONE = {"pp": 1, "dp": 1, "ep": 1}
"""Axes of a deployment that are not listed at one device."""


def view(found: DeviceRanking) -> View:
    """The ranking, and why the other devices have no plan."""
    times = ("TTFT", "TPOT") if found.serving else ("step time",)
    tokens = "generated tokens" if found.serving else "tokens"
    by_run = bool(found.ranked[0].objective)
    heads = [
        *("device", "devices", f"$ per 1M {tokens}", "$ per hour", f"{tokens}/s", *times, "W a device", "kWh per 1M"),
        *(("days", "run cost", "t CO₂") if by_run else ()),
        "plan",
    ]
    shared = _shared(found) if found.serving else {}
    rows = []
    for one in found.ranked:
        *cells, plan = _row(one, shared, serving=found.serving)
        rows.append((*cells, *(_run_cells(one.whole_run) if by_run else ()), plan))
    stopped = f"stopped before {', '.join(found.not_searched)}"
    prices = (
        "Prices are those of the catalogue; `windtunnel devices ID` has the source of each. "
        f"{len(found.not_priced)} devices have none there: a scenario that names one of them states "
        "`cluster.price_per_device_hour`."
    )
    alike: tuple[Words, ...] = (f"All plans: {plan_words(shared, list(shared))}",) if shared else ()
    return View(
        title="Devices ranked by cost per token",
        verdict=Text(stopped, "warn") if found.not_searched else None,
        sections=sections(
            Section("", (table(heads, rows, numeric=range(1, len(heads) - 1)), Lines((*alike, Text(prices, "dim"))))),
            Section("Priced devices without a plan", (pairs(found.without_plan.items()),)),
        ),
    )


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

    def shown(value: float, form: str) -> str:
        return "–" if value != value else format(value, form)

    cost = "–" if run["run_cost"] != run["run_cost"] else f"${run['run_cost']:,.0f}"
    return shown(run["days"], ",.4g"), cost, shown(run["carbon_kg"] / 1000, ",.4g")


def _time(value_s: float | None, interval_s: tuple[float, float] | None) -> str:
    """A time with the ends of its interval below."""
    if value_s is None:
        return "–"
    ends = "" if interval_s is None else f"\n{seconds(interval_s[0])} to {seconds(interval_s[1])}"
    return seconds(value_s) + ends
