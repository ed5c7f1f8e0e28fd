"""One line of advice: what to change, what it gains, what moved and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One technique, one setting or two of them together, simulated in the user's scenario."""

    names: tuple[str, ...]
    """Ids of techniques, settings in words."""
    words: str
    """The same with knobs."""
    kind: str
    """technique | setting (also a technique that is but another plan) | pair."""
    gain: float
    """Relative improvement of the objective: 0.1 is ten per cent faster."""
    low: float
    """Ends of the interval of `gain`; `level` of measured pairs lie inside."""
    high: float
    level: float
    told_apart: bool
    """Whether that interval leaves out 0."""
    basis: str
    value: float
    """The objective's figure after the change."""
    fits: bool
    memory_change_bytes: float | None
    """Reserved peak, after less before; None for serving."""
    moved: tuple[tuple[str, float, float], ...]
    """Class of time, or figure → before, after; the largest first."""
    scenario: dict[str, Any]
    """What to merge into the scenario."""
    summary: str = ""
    paper: str = ""
    quality: str = ""
    """What it may cost in the model's quality; empty where results are the same."""
    where: dict[str, str] = field(default_factory=dict)
    """Framework → option that switches it on."""
    conflicts: tuple[str, ...] = ()
    """Other suggestions that cannot be combined with it."""
    missing: str = ""
    """What is left out of the mechanism."""
    alike: tuple[str, ...] = ()
    """Others that come to the very same result here."""
    replanned: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Fields of the resolved plan that it changes → before, after."""
    freed: tuple[tuple[str, float, float], ...] = ()
    """Kinds of tensors → bytes at the peak before, after."""
    relieves: str = ""
    """Resource that it relieves."""
    step_gain: float | None = None
    """Training, where the objective is memory: relative gain of speed."""
    papers: tuple[str, ...] = ()
    """What its techniques change, one line each."""

    assumes: dict[str, Any] = field(default_factory=dict)
    """Facts of hardware or requests that its knobs state, by technique and knob: yours may differ."""
    also: tuple[tuple[str, float, float], ...] = ()
    """Of a run: days, run_cost, energy_kwh, carbon_kg and host_bytes before and after, those that are known."""
    costs: str = ""
    """What its techniques cost, in their papers' terms."""
    adds: str = ""
    """Hardware that it takes next to the cluster's."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "names": list(self.names),
            "words": self.words,
            "kind": self.kind,
            "gain": self.gain,
            "interval": {"level": self.level, "low": self.low, "high": self.high, "basis": self.basis},
            "told_apart": self.told_apart,
            "value": self.value,
            "fits": self.fits,
            "memory_change_bytes": self.memory_change_bytes,
            "moved": [{"name": n, "before": a, "after": b} for n, a, b in self.moved],
            "scenario": self.scenario,
            "summary": self.summary,
            "paper": self.paper,
            "quality": self.quality,
            "adds": self.adds,
            "where": self.where,
            "conflicts": list(self.conflicts),
            "missing": self.missing,
            "alike": list(self.alike),
            "replanned": {k: {"before": a, "after": b} for k, (a, b) in self.replanned.items()},
            "freed": [{"name": n, "before": a, "after": b} for n, a, b in self.freed],
            "relieves": self.relieves,
            "also": [{"name": n, "before": a, "after": b} for n, a, b in self.also],
            "costs": self.costs,
            "step_gain": self.step_gain,
            "assumes": self.assumes,
            "papers": list(self.papers),
        }
