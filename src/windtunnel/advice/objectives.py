"""What advice may aim at, as figures of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windtunnel.errors import BadInput, nearest_name
from windtunnel.techniques.base import Work


@dataclass(frozen=True, slots=True)
class Objective:
    """One figure of a result, and which way is better."""

    id: str
    title: str
    figure: str
    """Field of the result, parts of it by dots."""
    larger: bool = False
    measure: str = "step_time_s"
    """Whose residuals say how sure a difference is."""

    def value(self, result: Any) -> float | None:
        """The figure, None where a result has none (no price, no watts)."""
        found = result
        for part in self.figure.split("."):
            found = found.get(part) if isinstance(found, Mapping) else getattr(found, part)
            if found is None:
                return None
        return float(found)

    def gain(self, before: float, after: float) -> float:
        """Relative improvement: 0.1 is ten per cent more of a rate, or a rate that a time implies."""
        if not before or not after:
            return 0.0
        return after / before - 1.0 if self.larger else before / after - 1.0


TRAINING = (
    Objective("time", "step time", "step_time_s"),
    Objective("memory", "memory reserved", "peak_memory_reserved_bytes", measure=""),
    Objective("energy", "energy per token", "energy_per_token_j"),
    Objective("money", "cost per million tokens", "cost_per_million_tokens"),
)
SERVING = (
    Objective("throughput", "output tokens/s", "output_tokens_per_s", True, "throughput"),
    Objective("goodput", "requests/s within the objective", "goodput_requests_per_s", True, "throughput"),
    Objective("ttft", "mean TTFT", "ttft_s.mean", measure="ttft"),
    Objective("tpot", "mean TPOT", "tpot_s.mean", measure="tpot"),
    Objective("e2e", "mean E2E", "e2e_s.mean", measure="e2e"),
    Objective("energy", "energy per output token", "power.energy_per_output_token_j", measure="throughput"),
    Objective("money", "cost per million output tokens", "cost_per_million_output_tokens", measure="throughput"),
)
RUN = (
    Objective("days", "time to the last step", "days"),
    Objective("run_cost", "dollars of the run", "run_cost"),
    Objective("run_energy", "kWh of the run", "energy_kwh"),
    Objective("carbon_kg", "kg CO₂ of the run", "carbon_kg"),
)
"""Of a whole run: `run` in the scenario."""
_KNOWN: Mapping[Work, tuple[Objective, ...]] = {"training": TRAINING, "serving": SERVING, "run": (*RUN, *TRAINING)}


def chosen(name: str | None, work: Work, *, default: str) -> Objective:
    """An objective by its id; absent: the default. Of a run, a step's may be asked for too.

    Raises:
        BadInput: no objective of this kind of work.
    """
    known = {o.id: o for o in _KNOWN[work]}
    wanted = name or default
    if wanted not in known:
        near = nearest_name(wanted, known)
        hint = f"; did you mean {near}?" if near else ""
        of = "a scenario with `run`" if work == "run" else work
        needs = "; it needs a `run` section" if wanted in {o.id for o in RUN} else ""
        raise BadInput(f"objective = {wanted}: must be one of {', '.join(known)} for {of}{needs}{hint}")
    return known[wanted]
