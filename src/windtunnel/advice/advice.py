"""What a search for advice found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from windtunnel.advice.objectives import RUN, Objective
from windtunnel.advice.suggestion import Suggestion
from windtunnel.errors import Infeasible
from windtunnel.extras import extra
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.limits import merged
from windtunnel.versions import RESULT_SCHEMA

LISTS = ("suggestions", "settings", "pairs", "unlike")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What would help a scenario, best first."""

    scenario_name: str
    objective: Objective
    value: float
    """The objective's figure today."""
    fits: bool
    """Whether the scenario fits in memory today."""
    bottleneck: str
    """What bounds it, in words."""
    shares: dict[str, float]
    """Class of time → share of the step (training), largest first."""
    sensitivities: dict[str, float]
    """Resource → relative change of the step with 10 % more of it (training)."""
    memory: dict[str, float]
    """Kind of tensor → bytes at the peak (training), largest first."""
    framework: str
    """That the scenario names; of serving its engine."""
    suggestions: tuple[Suggestion, ...]
    """Techniques that gain with the same results on the same hardware."""
    settings: tuple[Suggestion, ...]
    """Settings of the plan that gain, techniques that are but another plan among them: change these first."""
    pairs: tuple[Suggestion, ...]
    """Two together that gain more than either alone."""
    unlike: tuple[Suggestion, ...]
    """Techniques that gain and are not like for like: another model, approximate results, more hardware."""
    lost: dict[str, str]
    """Techniques that apply and gain nothing → what they change."""
    refused: dict[str, str]
    """Techniques that cannot be simulated in this scenario → why."""
    unfit: dict[str, str]
    """Techniques that do not apply → why."""
    tried: int
    """Changes simulated."""
    notes: tuple[str, ...] = ()
    """What a reader should know of all of it."""
    result: Any = field(default=None, repr=False, compare=False)
    """Today's prediction."""

    @property
    def of_a_run(self) -> bool:
        """Whether the objective is one of a whole run."""
        return self.objective in RUN

    @property
    def cited(self) -> tuple[str, ...]:
        """Ids of the techniques that it suggests, and of those that come to the same."""
        found = [s for name in LISTS for s in getattr(self, name)]
        words = [part for s in found for text in (s.words, *s.alike) for part in text.split(" + ")]
        names = dict.fromkeys(part.split(" ", 1)[0] for part in words)
        return tuple(name for name in names if name in REGISTRY)

    @property
    def best(self) -> Suggestion | None:
        """What gains most and is like for like; else what gains most."""
        for group in ((*self.suggestions, *self.settings, *self.pairs), self.unlike):
            if group:
                return max(group, key=lambda s: (s.fits, s.gain))
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        lists = {n: [s.to_dict() for s in getattr(self, n)] for n in LISTS}
        return {
            "schema_version": RESULT_SCHEMA,
            "scenario_name": self.scenario_name,
            "objective": {"id": self.objective.id, "figure": self.objective.figure, "value": self.value},
            "fits": self.fits,
            "bottleneck": self.bottleneck,
            "shares": self.shares,
            "memory": self.memory,
            "framework": self.framework,
            "sensitivities": self.sensitivities,
            **lists,
            "lost": self.lost,
            "refused": self.refused,
            "unfit": self.unfit,
            "tried": self.tried,
            "notes": list(self.notes),
        }

    def to_frame(self) -> Any:
        """Pandas frame, one row a suggestion."""
        pd = extra("pandas")

        rows = [one for name in LISTS for one in getattr(self, name)]
        names = ("kind", "words", "gain", "low", "high", "value", "fits", "memory_change_bytes", "quality", "basis")
        return pd.DataFrame([{n: getattr(s, n) for n in names} for s in rows])


def best_scenario(advice: Advice) -> dict[str, Any]:
    """The scenario with its best suggestion switched on.

    Raises:
        Infeasible: nothing gains.
    """
    if advice.best is None:
        raise Infeasible("nothing that was tried gains in this scenario; no file is written")
    return merged(advice.result.scenario, advice.best.scenario)
