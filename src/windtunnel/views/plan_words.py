"""Plans of a search in words: fields, clusters, bounds, limits, the proof."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from windtunnel.quantities import gib, quantity, seconds

if TYPE_CHECKING:
    from windtunnel.planner.analysis.explain_best import ClusterBest, LimitCost, TpPpBest
    from windtunnel.planner.analysis.recommend import Choice
    from windtunnel.planner.analysis.stability import Resource
    from windtunnel.planner.result import PlanResult, Ranked
    from windtunnel.training.results.training_result import TrainingResult

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
_SIMPLER = {
    "kinds": "fewer kinds of parallelism",
    "redone": "less recomputation or offloading",
    "stages": "fewer virtual stages",
    "switches": "fewer switches off the framework's defaults",
    "inner": "layers cut over fewer devices",
}
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


def worse(row: Ranked, result: PlanResult) -> float:
    """How much worse a plan is than the best one at the first objective, as a share."""
    first = result.objectives[0]
    value, best = row.values.get(first, row.step_time_s), result.proof.best
    from windtunnel.planner.objectives import METRICS

    return (-1.0 if METRICS[first].maximise else 1.0) * (value - best) / abs(best) if best else 0.0


def best_row(result: PlanResult) -> Ranked | None:
    """The best plan's row of the table."""
    rows = (*result.frontier, *result.front)
    fit = [r for r in rows if r.fits and not r.missed and r.step_time_s == result.best.step_time_s]
    return fit[0] if fit else None


def cluster_words(cell: ClusterBest, objective: str) -> str:
    """The best of a cluster, marked where it is a bound."""
    from windtunnel.planner.objectives import METRICS

    metric = METRICS[objective]
    mark = "" if cell.simulated is not None else "≤ " if metric.maximise else "≥ "
    value = cell.bound if cell.simulated is None else cell.simulated
    return f"{nodes_words(cell.nodes, cell.device)} {cell.precision}: {mark}{quantity(value, metric.unit)}"


def instead_words(best: TrainingResult, other_s: float | None) -> str:
    """How the best plan over a heterogeneous cluster compares with another use of them."""
    if other_s is None:
        return "nothing fits"
    gain = 1.0 - best.step_time_s / other_s
    if gain < 0:
        return f"{100 * (1.0 - other_s / best.step_time_s):.1f} % shorter than all groups together"
    return f"the best is {100 * gain:.1f} % shorter"


def choice_words(choice: Choice) -> str:
    """Why a plan is recommended."""
    if choice.same:
        return "no simulated plan is simpler and cannot be told apart from it"
    why = _SIMPLER[choice.differs[0]]
    if choice.probability_fastest_faster is None:
        return f"simpler ({why}); no measured pair of plans differs in these switches"
    sure = 100 * choice.probability_fastest_faster
    return f"simpler ({why}); the fastest is really faster with {sure:.0f} % probability"


def proof_words(result: PlanResult) -> list[str]:
    """What the certificate says, a sentence a line."""
    proof = result.proof
    parts = [f"{number:,} {_PRUNED.get(rule, f'break {rule}')}" for rule, number in result.pruned.items() if number]
    text = f"{proof.candidates:,} candidates: {', '.join([*parts, f'{proof.simulated:,} simulated'])}"
    if proof.complete:
        word = "faster" if proof.objective == "step_time" else "better"
        return [f"{text}; nothing in the space is {word}."]
    return [text + ".", f"Stopped early: {gap_words(result)}"]


_PRUNED = {
    "memory": "cannot fit",
    "bound": "have a lower bound no better than the best",
    "refused": "refused by the simulator",
}


def gap_words(result: PlanResult) -> str:
    """How much better a plan could be that was not looked at."""
    return f"a plan up to {100 * result.proof.gap:.1f} % better may exist."


def margin_words(result: PlanResult) -> str | None:
    """What the memory that plans leave free costs, where nothing else says so; None where none is left free."""
    free = f"{100 * (1.0 - result.memory_fraction):.3g} % of memory stay free (search.limits.memory_fraction)"
    if result.memory_fraction == 1.0 or result.why is not None:
        return None
    if (spare := result.without_margin) is None:
        return f"{free}: costs nothing among the plans that were simulated."
    gain = 1.0 - spare.step_time_s / result.proof.best_s
    least = f"costs at least {100 * gain:.1f} % of step time" if gain > 0 else "costs something"
    return f"{free}: {least}; a plan with {gib(spare.reserved_bytes or 0.0)} takes {seconds(spare.step_time_s)}."


def cell_words(cell: TpPpBest) -> str:
    """Seconds of a cell, marked where they are a bound."""
    return seconds(cell.simulated_s) if cell.simulated_s is not None else f"≥ {seconds(cell.bound_s)}"


def limit_words(limit: LimitCost) -> tuple[str, str]:
    """A limit and what lifting it would bring."""
    name = f"{limit.name} {quantity(limit.limit, limit.unit)}"
    if limit.plan is None:
        return name, "costs nothing"
    needs = f", which needs {quantity(limit.needs, limit.unit)}" if limit.needs is not None else ""
    step = "" if limit.step_time_s is None else f"{seconds(limit.step_time_s)} with "
    what = "" if limit.of == "step_time" else f" of {metric_words(limit.of)}"
    return name, f"costs {100 * limit.gain:.1f} %{what}; without it {step}{plan_words(limit.plan)}{needs}"


def metric_words(name: str) -> str:
    """A metric's name as people write it, without the unit that its values have.

    Example:
        >>> metric_words("carbon_kg"), metric_words("time_to_tokens")
        ('carbon', 'time to tokens')
    """
    return name.removesuffix("_kg").replace("_", " ")


def resource_words(r: Resource) -> tuple[str, list[str]]:
    """A resource, and where the layout stops being the best."""
    lines = []
    for edge, word in ((r.below, "down"), (r.above, "up")):
        text = f"{word} to {scale_text(edge.holds_at)}, {quantity(r.amount * edge.holds_at, r.unit)}"
        if edge.lost_at is None:
            lines.append(f"{text}, as far as was looked")
        else:
            what = "nothing fits" if edge.winner is None else plan_words(edge.winner)
            lines.append(f"{text}; at {scale_text(edge.lost_at)} {what}")
    return f"{RESOURCES[r.name]} ({quantity(r.amount, r.unit)})", lines


def scale_text(scale: float) -> str:
    """×0.31.

    Example:
        >>> scale_text(0.125), scale_text(8.0)
        ('×0.125', '×8')
    """
    return f"×{scale:.3g}"
