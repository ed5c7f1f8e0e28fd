"""`population:`, how often a model's attempts at the problems of a task are right, for `windtunnel reason`."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import Count, Inconsistent, Spec

Share = Annotated[float, Field(ge=0, le=1)]
"""A probability, as a fraction of 1."""
SOURCES = ("beta", "samples", "pass_at_k", "all_of_k", "pass_1")


class BetaSpec(Spec):
    """Parameters of a Beta law of the success probability over problems; its mean is a/(a + b).

    Errors are those of `windtunnel calibrate --from samples`; without them figures have no interval.
    """

    a: Annotated[float, Field(gt=0, le=1e9)]
    """Weight of success: small a and b put most problems near never or always."""
    b: Annotated[float, Field(gt=0, le=1e9)]
    """Weight of failure."""
    log_sd_a: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Standard deviation of the error of ln a."""
    log_sd_b: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Standard deviation of the error of ln b."""
    log_correlation: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """Correlation of the errors of ln a and ln b."""


class LengthLaw(Spec):
    """Tokens of an attempt: a lognormal law."""

    mean: Annotated[float, Field(gt=0, le=1e9)]
    """Mean tokens."""
    sigma: Annotated[float, Field(ge=0, le=5)] = 0.5
    """Standard deviation of the logarithm."""


class AnswerLengths(Spec):
    """Tokens of right and of wrong attempts."""

    correct: LengthLaw
    """Lengths of right answers."""
    wrong: LengthLaw
    """Lengths of wrong answers."""


def _or_flat(schema: dict[str, Any]) -> None:
    """One histogram may stand for the list of it."""
    schema["anyOf"] = [
        {"items": schema["items"], "type": "array"},
        {"items": schema["items"]["items"], "type": "array"},
    ]
    del schema["items"], schema["type"]


class OnePopulation(Spec):
    """Success over problems for one (model, task, temperature, length cap), from exactly one source."""

    beta: BetaSpec | None = None
    """Beta distribution of the chance of success over problems."""
    samples: str | None = Field(default=None, min_length=1)
    """A file of attempts or of successes (`windtunnel calibrate --from samples` says its columns), relative to the
    scenario."""
    pass_at_k: dict[int, Share] | None = None
    """Share of problems that at least one of k attempts solves: {1: 0.2, 10: 0.5}."""
    all_of_k: dict[int, Share] | None = None
    """Share of problems that each of k attempts solves (pass^k): {1: 0.6, 2: 0.49}."""
    pass_1: Share | None = None
    """Share of right attempts, alone: the spread over problems is assumed then."""
    concentration: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """a + b of the Beta law next to `pass_1`; absent: assumed, with a wide interval."""
    problems: Count | None = None
    """Problems of the benchmark that a table was measured on; few of them widen the interval. Absent: 100."""
    model: str = ""
    """Which rows of `samples` are read."""
    task: str = ""
    """Which rows of `samples` are read."""
    temperature: Annotated[float, Field(ge=0, le=10)] | dict[int, float] | None = None
    """At which the attempts were drawn; a table of temperatures by k is refused unless all are the same."""
    max_tokens: Count | None = None
    """Length cap under which the attempts were drawn."""
    wrong_answers: Annotated[tuple[tuple[Share, ...], ...], Field(json_schema_extra=_or_flat)] = ()
    """Shares of the most frequent wrong answers among wrong attempts, largest first, for majority votes; a list of such
    lists stands for kinds of problem that are equally frequent. What is left over are answers that nobody repeats."""
    lengths: AnswerLengths | None = None
    """Tokens of answers; absent: those of the programs."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Which of the sources are stated."""
        return tuple(name for name in SOURCES if getattr(self, name) is not None)

    @field_validator("pass_at_k", "all_of_k", "temperature", mode="before")
    @classmethod
    def _whole_k(cls, value: Any) -> Any:
        """Keys of JSON are strings; a fraction of an attempt is none."""
        if isinstance(value, dict):
            return {_whole(key): entry for key, entry in value.items()}
        return value

    @field_validator("wrong_answers", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        """A flat list of shares is one histogram."""
        if isinstance(value, list | tuple) and value and not any(isinstance(x, list | tuple) for x in value):
            return (tuple(value),)
        return value

    @model_validator(mode="after")
    def _consistent(self) -> OnePopulation:
        problems = self._of_tables() + self._of_temperature() + self._of_wrong_answers()
        if self.concentration is not None and self.pass_1 is None:
            problems.append(Problem("concentration", "goes with `pass_1`", self.concentration))
        if self.problems is not None and not {"pass_at_k", "all_of_k", "pass_1"} & set(self.sources):
            problems.append(Problem("problems", "goes with `pass_at_k`, `all_of_k` or `pass_1`", self.problems))
        for name in ("model", "task"):
            if getattr(self, name) and self.samples is None:
                problems.append(Problem(name, "goes with `samples`: it chooses their rows", getattr(self, name)))
        if self.pass_1 is not None and self.pass_1 in (0, 1):
            problems.append(Problem("pass_1", "must be between 0 and 1: no law has all or none right", self.pass_1))
        if self.lengths is not None and self.max_tokens is not None:
            for name in ("correct", "wrong"):
                mean = getattr(self.lengths, name).mean
                if mean > self.max_tokens:
                    rule = f"must not be above max_tokens {self.max_tokens}"
                    problems.append(Problem(f"lengths.{name}.mean", rule, mean))
        if len(self.sources) > 1:
            rule = f"needs one source, not {' and '.join(self.sources)}"
            problems += [Problem(name, rule) for name in self.sources[1:]]
        if problems:
            raise Inconsistent(problems)
        return self

    def _of_tables(self) -> list[Problem]:
        """Shares over k that no population has."""
        problems: list[Problem] = []
        for name, rising in (("pass_at_k", True), ("all_of_k", False)):
            table: dict[int, float] | None = getattr(self, name)
            if table is None:
                continue
            if not table:
                problems.append(Problem(name, "must have one entry at least"))
            for k in table:
                if not 1 <= k <= 10**9:
                    problems.append(Problem(f"{name}.{k}", "must be of 1 to 1,000,000,000 attempts"))
            order = sorted(table)
            for low, high in pairwise(order):
                if (table[high] < table[low]) if rising else (table[high] > table[low]):
                    word = "below" if rising else "above"
                    rule = f"must not be {word} {table[low]:g}, that of {low} attempts: more attempts are never "
                    problems.append(Problem(f"{name}.{high}", rule + ("worse" if rising else "better"), table[high]))
            if order and all(table[k] in (0, 1) for k in order):
                problems.append(Problem(name, "must have an entry between 0 and 1: no law has all or none right"))
        return problems

    def _of_temperature(self) -> list[Problem]:
        """Temperatures that differ over k: each k is of another population then."""
        if not isinstance(self.temperature, dict):
            return []
        found = sorted(self.temperature.items())
        problems = [
            Problem(f"temperature.{k}", "must be from 0 to 10", t) for k, t in found if not 0 <= t <= 10 or t != t
        ]
        first = found[0] if found else (1, 0.0)
        for k, t in found[1:]:
            if t != first[1]:
                rule = f"differs from {first[1]:g} at k = {first[0]}: one population has one temperature"
                problems.append(Problem(f"temperature.{k}", rule, t))
        return problems

    def _of_wrong_answers(self) -> list[Problem]:
        problems = []
        for at, kind in enumerate(self.wrong_answers):
            name = "wrong_answers" if len(self.wrong_answers) == 1 else f"wrong_answers.{at}"
            if sum(kind) > 1 + 1e-9:
                problems.append(Problem(name, f"must not add up to more than 1 (they add up to {sum(kind):g})"))
            if list(kind) != sorted(kind, reverse=True):
                problems.append(Problem(name, "must list shares from the largest to the smallest"))
        return problems


class PopulationSpec(OnePopulation):
    """Population of the scenario's model, or one for each of several models."""

    models: dict[str, OnePopulation] = {}
    """By the model's name, in place of one population for the scenario's `model`."""

    @model_validator(mode="after")
    def _some(self) -> PopulationSpec:
        if self.models and self.sources:
            rule = f"does not go with `{self.sources[0]}` next to it: give each model its own"
            raise Inconsistent([Problem("models", rule)])
        none = "needs one of " + ", ".join(SOURCES)
        if not self.models and not self.sources:
            raise ValueError(none + " (or `models`)")
        if missing := [Problem(f"models.{name}", none) for name, one in self.models.items() if not one.sources]:
            raise Inconsistent(missing)
        return self

    @property
    def by_model(self) -> dict[str, OnePopulation]:
        """Populations by the model's name; the name is empty where the scenario's own model is meant."""
        return dict(self.models) if self.models else {"": self}


Grade = Literal["fitted", "assumed"]
"""How a figure of quality is known; it is never `simulated`."""


def _whole(key: Any) -> Any:
    """A key of a table as a whole number where it is one."""
    if isinstance(key, str):
        try:
            return int(key)
        except ValueError:
            return key
    return key
