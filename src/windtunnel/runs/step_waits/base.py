"""A rule for whom a step waits, and what a run pays and gains by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from windtunnel.arrays import Floats
from windtunnel.errors import BadInput, ProblemList, nearest_name
from windtunnel.registry import Registry
from windtunnel.runs.step_waits.worker_times import worker_times
from windtunnel.specs.run import StragglersSpec
from windtunnel.techniques.knobs import named

ROUNDS = 400
"""Steps whose waits are drawn; means of them stand for all steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """What a rule makes of the drawn times."""

    seconds: Floats
    """Time of each step over that of a step of typical workers with an even load, shape (rounds,)."""
    progress: float = 1.0
    """Of a step, over that of one that has all gradients: below 1, a run takes so many more steps."""
    load: float = 1.0
    """Work of a worker over its even share of the batch."""
    delay: int = 0
    """Steps until a gradient is whole."""
    notes: tuple[str, ...] = ()

    @property
    def factor(self) -> float:
        """Mean time of a step."""
        return float(self.seconds.mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWait:
    """One rule."""

    name: str
    source: str
    wait: Callable[[Floats, float, Mapping[str, Any]], Waited]
    """Times (rounds, workers) of an even load, the share of them that grows with the load, knobs → what is waited."""
    knobs: Mapping[str, tuple[float | None, float, float]] = field(default_factory=dict)
    """Knob → default, lowest, highest; a default of None leaves the choice to the rule."""

    def read(self, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Defaults with the given values laid over them.

        Raises:
            BadInput: unknown knobs and values out of range, all at once.
        """
        problems, found = ProblemList(), {name: knob[0] for name, knob in self.knobs.items()}
        for name, value in given.items():
            if name not in found:
                rule = f"unknown knob; known are {', '.join(found) or 'none'}"
                problems.add(f"{where}.{name}", value, rule, nearest=nearest_name(name, found))
                continue
            _, low, high = self.knobs[name]
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                problems.add(f"{where}.{name}", value, f"must be a number, {low:g} to {high:g}")
            else:
                found[name] = value
        problems.raise_if_any()
        return found


STEP_WAITS: Registry[StepWait] = Registry("step_waits", package="windtunnel.runs.step_waits.rules", noun="rule")


_KEPT: dict[tuple[str, int, int], Waited] = {}
"""Drawn waits of this process, by scenario's section, workers and seed: plans of a search ask for the same ones."""


def step_waits(spec: StragglersSpec, workers: int, seed: int) -> Waited:
    """What unequal workers cost a step under the rule of a scenario; drawn once in a process.

    Args:
        spec: Law of the times and rule.
        workers: Of a step, where the scenario states none.
        seed: Of the random numbers.

    Raises:
        BadInput: an unknown rule or knob, or sizes that do not fit the workers.
    """
    key = spec.model_dump_json(), spec.workers or workers, seed
    if key not in _KEPT:
        _KEPT[key] = _drawn(spec, workers, seed)
    return _KEPT[key]


def _drawn(spec: StragglersSpec, workers: int, seed: int) -> Waited:
    name, given = named(spec.wait)
    rule = STEP_WAITS.get(name, field="run.stragglers.wait")
    knobs = rule.read(given, f"run.stragglers.wait.{name}")
    times = worker_times(spec, spec.workers or workers, ROUNDS, seed)
    try:
        return rule.wait(times, spec.load_share, knobs)
    except ValueError as problem:
        problems = ProblemList()
        problems.add(f"run.stragglers.wait.{name}", dict(given), str(problem))
        raise BadInput(problems) from problem
