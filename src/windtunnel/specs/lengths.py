"""How long prompts and answers are."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import Count, Inconsistent, Spec

MAX_ZIPF_LENGTHS = 1 << 20
"""Lengths of a Zipf law: each has a weight of its own."""


class Lengths(Spec):
    """Tokens of prompts or answers."""

    distribution: Literal["fixed", "uniform", "normal", "lognormal", "gamma", "zipf", "empirical"] = "fixed"
    """Form of the distribution."""
    mean: float | None = Field(default=None, gt=0)
    """Mean of the distribution, in its unit."""
    cv: float = Field(default=1.0, ge=0)
    """Standard deviation over mean."""
    min: Count | None = None
    """Smallest value; smaller draws are raised to it."""
    max: Count | None = None
    """Largest value; larger draws are cut to it."""
    values: tuple[Count, ...] = ()
    """`empirical`: lengths to draw from."""

    @model_validator(mode="after")
    def _enough(self) -> Lengths:
        problems = []
        if self.distribution == "empirical" and not self.values:
            problems.append(Problem("values", "is required by distribution empirical"))
        if self.distribution == "uniform" and (self.min is None or self.max is None):
            problems.append(Problem("min", "and max are required by distribution uniform"))
        if self.distribution not in ("empirical", "uniform") and self.mean is None:
            problems.append(Problem("mean", f"is required by distribution {self.distribution}"))
        if self.min is not None and self.max is not None and self.min > self.max:
            problems.append(Problem("min", f"must not be above max {self.max}", value=self.min))
        elif self.mean is not None and not (self.min or 0) <= self.mean <= (self.max or self.mean):
            problems.append(Problem("mean", f"must be from min {self.min} to max {self.max}", value=self.mean))
        if self.distribution == "zipf":
            problems += self._zipf()
        unread = {
            "fixed": ("cv", "values"),
            "uniform": ("mean", "cv", "values"),
            "zipf": ("cv", "values"),
            "empirical": ("mean", "cv"),
        }.get(self.distribution, ("values",))
        for name in unread:
            if name in self.model_fields_set and getattr(self, name) != type(self).model_fields[name].default:
                problems.append(Problem(name, f"is not read by distribution {self.distribution}; leave it out"))
        if problems:
            raise Inconsistent(problems)
        return self

    def _zipf(self) -> list[Problem]:
        """What a Zipf law needs: a longest length, and a mean below the middle (its weights fall with length)."""
        if self.max is None:
            return [Problem("max", "is required by distribution zipf")]
        if self.max - (self.min or 1) >= MAX_ZIPF_LENGTHS:
            return [Problem("max", f"must be at most {MAX_ZIPF_LENGTHS} above min for distribution zipf", self.max)]
        middle = ((self.min or 1) + self.max) / 2
        if self.mean is not None and not (self.min or 1) < self.mean <= middle:
            return [Problem("mean", f"must be above min and at most {middle:g}, half way to max, for zipf", self.mean)]
        return []
