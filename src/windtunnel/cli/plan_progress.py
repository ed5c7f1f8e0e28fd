"""What a running search says of itself on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windtunnel.planner.result import Progress
    from windtunnel.planner.serving.plan_deployment import Progress as ServingProgress


def words(p: Progress | ServingProgress) -> str:
    """A search in one line: candidates screened and how fast, simulated, best so far, how much better is possible."""
    from windtunnel.planner.serving.plan_deployment import Progress as ServingProgress

    if isinstance(p, ServingProgress):
        return _serving(p)
    from windtunnel.planner.objectives import METRICS
    from windtunnel.quantities import quantity

    if not p.screened:
        return f"screening {p.candidates:,} plans"
    rate = p.screened / p.elapsed_s if p.elapsed_s > 0 else 0.0
    some = f" of {p.candidates:,}" if p.screened < p.candidates else ""
    parts = [f"{p.screened:,}{some} screened" + ("" if p.simulated else f", {rate:,.0f} a second")]
    if p.simulated:
        parts.append(f"{p.simulated:,} simulated")
    if p.best is not None:
        metric = METRICS[p.objective]
        parts.append(f"best {quantity(p.best, metric.unit)}")
        if p.next_bound is not None and p.best:
            gap = max(0.0, metric.signed(p.best) - metric.signed(p.next_bound)) / abs(p.best)
            parts.append(f"gap {100 * gap:.2f} %")
    if p.doing:
        parts.append(p.doing)
    return ", ".join(parts)


def _serving(p: ServingProgress) -> str:
    from windtunnel.quantities import three

    parts = [f"{p.screened:,} screened"]
    if p.simulated:
        parts.append(f"{p.simulated:,} simulated")
    if p.best is not None:
        parts.append(f"best {p.objective.replace('_', ' ')} {three(p.best)}")
        if p.next_bound is not None:
            parts.append(f"bound {three(p.next_bound)}")
    return ", ".join(parts)


def stopped_words(stop: KeyboardInterrupt) -> str:
    """What Ctrl-C left behind before there was a plan."""
    from windtunnel.planner.result import Stopped

    if isinstance(stop, Stopped) and stop.screened:
        return (
            f"stopped: of {stop.candidates:,} plans {stop.screened:,} were screened and {stop.simulated:,} simulated; "
            "none of these keeps to the limits, so there is no plan to show yet"
        )
    return "stopped while plans were screened: none was simulated yet, so there is no plan to show"
