"""Names that the view of a search for deployments and its charts share: of cuts, limits and loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windtunnel.quantities import three

if TYPE_CHECKING:
    from windtunnel.planner.serving.plan_deployment import Deployment, ServingPlan

PARTS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "E2E"}
AXES = ("tp", "pp", "dp", "ep")


def cut_words(d: Deployment) -> str:
    """Replicas and how each is cut.

    Example: `4 × tp 2` or `2 × dp 8 ep 8`.
    """
    text = _cut(d.plan)
    if (other := d.plan.get("decode")) is None:
        return text
    return f"{text} → {_cut(other)}" + (f" ({other['device']})" if "device" in other else "")


def _cut(plan: dict[str, Any]) -> str:
    axes = [f"{n} {plan[n]}" for n in AXES if plan[n] > 1] or ["one device"]
    return f"{plan['replicas']} × {' '.join(axes)}"


def limits_words(d: Deployment) -> str:
    """Batch limits, as the engine calls them."""
    return f"max_num_seqs {d.plan['max_num_seqs']:,}, max_num_batched_tokens {d.plan['max_num_batched_tokens']:,}"


def where_words(d: Deployment) -> str:
    """Device, engine and formats."""
    return f"{d.plan['device']}, {d.plan['engine']}, weights {d.plan['weights']}, cache {d.plan['kv_cache']}"


def load_words(d: Deployment, plan: ServingPlan) -> str:
    """The load that a deployment serves."""
    if plan.load_of == "rate_per_s":
        return f"{three(d.load)} requests/s"
    return f"{d.load:,.0f} in flight" if plan.load_of == "concurrency" else "the given requests"


def milli(seconds: float) -> str:
    """Milliseconds, or seconds from one on."""
    return f"{seconds:,.3g} s" if seconds >= 1 else f"{three(1e3 * seconds)} ms"


def thinned(plan: ServingPlan) -> list[Deployment]:
    """The front without points that lie within a hundredth of one before them in every objective."""
    out: list[Deployment] = []
    for d in plan.front:
        if not any(all(_close(d.values[n], o.values[n]) for n in plan.objectives) for o in out):
            out.append(d)
    return out


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= 0.01 * max(abs(a), abs(b))
