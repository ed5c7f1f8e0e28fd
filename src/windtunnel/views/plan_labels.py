"""Names that the view of a search and its charts share: of plans, clusters, metrics and resources."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from windtunnel.quantities import seconds

if TYPE_CHECKING:
    from windtunnel.planner.analysis.explain_best import TpPpBest
    from windtunnel.planner.result import PlanResult, Ranked

AXES = (
    "group_axis",
    "tp",
    "pp",
    "vpp",
    "cp",
    "ep",
    "etp",
    "dp",
    "mbs",
    "zero",
    "recompute",
    "stage_layers",
    "batch_shares",
)
_PLAIN: dict[str, Any] = {"vpp": 1, "cp": 1, "ep": 1, "etp": 1, "zero": None}
"""Values that say nothing."""
_UNSAID = ("recompute none", "zero 1", "stage_layers even")
RESOURCES = {
    "matrix throughput": "peak FLOP/s",
    "memory bandwidth": "HBM bandwidth",
    "scale-up bandwidth": "scale-up bandwidth",
    "scale-out bandwidth": "NIC bandwidth",
    "device memory": "device memory",
}


def plan_words(plan: dict[str, Any], names: Sequence[str] = AXES) -> str:
    """A plan in a few words: what is not plain, axes first.

    Example:
        >>> plan_words({"tp": 4, "pp": 2, "vpp": 1, "cp": 1, "dp": 8, "mbs": 1})
        'tp 4 · pp 2 · dp 8 · mbs 1'
    """
    shown = []
    for name in names:
        if isinstance(plan.get(name), (list, tuple)) and name == "stage_layers" and plan.get("group_axis") != "pp":
            continue  # of a resolved plan: said of every one
        if name in plan and plan[name] is not None and plan[name] != _PLAIN.get(name):
            value = field_text(plan[name])
            shown.append(f"recompute {value}" if name == "recompute" else f"{name} {value}")
    return " · ".join(text for text in shown if text not in _UNSAID)


def field_text(value: Any) -> str:
    """A field of a plan on one line."""
    if isinstance(value, dict):
        if "policy" in value:
            return str(value["policy"])
        return " ".join(f"{k} {field_text(v)}" for k, v in value.items()) or "–"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (list, tuple)):
        return "-".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return "–" if value is None else runs(str(value))


def runs(text: str) -> str:
    """Counts one after the other, equal ones together.

    Example:
        >>> runs("full:2 0 0 0"), runs("9 10 10 10 10 11"), runs("4 × h100")
        ('full:2 0×3', '9 10×4 11', '4 × h100')
    """
    head, _, counts = text.rpartition(":")
    words = counts.split()
    if len(words) < 4 or not all(word.isdigit() for word in words):
        return text
    groups = [(word, len(list(same))) for word, same in groupby(words)]
    said = [f"{word}×{number}" if number > 2 else " ".join([word] * number) for word, number in groups]
    return (f"{head}:" if head else "") + " ".join(said)


def best_words(result: PlanResult) -> str:
    """The best plan in a few words."""
    row = best_row(result)
    return plan_words(result.best.plan if row is None else row.plan)


def table_names(rows: Sequence[Ranked]) -> tuple[list[str], dict[str, Any]]:
    """Columns of a table of plans: fields that differ between its rows; and the fields that all rows share."""
    plans = [flat(r) for r in rows]
    names = list(dict.fromkeys(name for plan in plans for name in plan))
    order = {name: i for i, name in enumerate(AXES)}
    names.sort(key=lambda n: order.get(n, len(order)))
    differing = [n for n in names if any(p.get(n) != plans[0].get(n) for p in plans)]
    shared = {n: plans[0][n] for n in names if n not in differing}
    return differing, shared


def flat(row: Ranked) -> dict[str, Any]:
    """All that tells one row from another: fields of the plan, cluster and precision."""
    cluster = nodes_words(row.cluster["nodes"], row.cluster["device"]) if row.cluster else None
    return {**row.plan, "cluster": cluster, "precision": row.precision}


def nodes_words(nodes: int, device: str) -> str:
    """A cluster of a search, counted in nodes.

    Example:
        >>> nodes_words(1, "h100-sxm-80gb"), nodes_words(4, "h100-sxm-80gb")
        ('1 node of h100-sxm-80gb', '4 nodes of h100-sxm-80gb')
    """
    return f"{nodes:,} node{'s' * (nodes != 1)} of {device}"


def best_row(result: PlanResult) -> Ranked | None:
    """The best plan's row of the table."""
    rows = (*result.frontier, *result.front)
    fit = [r for r in rows if r.fits and not r.missed and r.step_time_s == result.best.step_time_s]
    return fit[0] if fit else None


def cell_words(cell: TpPpBest) -> str:
    """Seconds of a cell, marked where they are a bound."""
    return seconds(cell.simulated_s) if cell.simulated_s is not None else f"≥ {seconds(cell.bound_s)}"


def metric_words(name: str) -> str:
    """A metric's name as people write it, without the unit that its values have.

    Example:
        >>> metric_words("carbon_kg"), metric_words("time_to_tokens")
        ('carbon', 'time to tokens')
    """
    return name.removesuffix("_kg").replace("_", " ")


def scale_text(scale: float) -> str:
    """×0.31.

    Example:
        >>> scale_text(0.125), scale_text(8.0)
        ('×0.125', '×8')
    """
    return f"×{scale:.3g}"
