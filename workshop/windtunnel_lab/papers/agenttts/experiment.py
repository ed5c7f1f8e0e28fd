"""Searches for models and samples of two stages under one budget: trials until a choice is near the best."""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population.beta import from_mean
from windtunnel_lab.models.programs.stage_searches import mean_trials
from windtunnel_lab.models.programs.stage_table import Stage, StageTable, stage_table
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.device_steps import token_flop
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
POINTS = 200
"""Of a population."""


def flop(model: str, samples: int, read: int, written: int) -> float:
    """A prompt that is read once, and so many samples that go on from it."""
    linear, attention = token_flop(model, fixed("device"))
    tokens = read + samples * written
    pairs = read * read / 2.0 + samples * written * (read + written / 2.0)
    return linear * tokens + attention * pairs


@lru_cache(maxsize=4)
def stage(name: str) -> Stage:
    """One stage with its population and its cost."""
    models, samples = fixed(f"{name}_models"), fixed("samples")
    laws = [from_mean(p, fixed("concentration")) for p in fixed(f"{name}_pass")]
    cost: Floats = np.array([[flop(m, n, *fixed(f"{name}_tokens")) for n in samples] for m in models])
    points = tuple(law.points(POINTS) for law in laws)
    return Stage(name=name, models=tuple(models), points=points, samples=tuple(samples), cost=cost)


@lru_cache(maxsize=16)
def _table(text: str) -> StageTable:
    values = json.loads(text)
    stages = [stage("retrieval"), stage("answer")]
    budget = values["budget"] * sum(float(s.cost[-1, 0]) for s in stages)
    return stage_table(stages, budget=budget, separation=values["separation"], carried=values["carried"])


def table(values: Values) -> StageTable:
    """Every choice within the budget."""
    return _table(json.dumps({name: values[name] for name in ("budget", "separation", "carried")}))


@lru_cache(maxsize=64)
def _trials(text: str, search: str) -> float:
    own = {name: fixed(name) for name in ("near", "examples", "repeats")}
    return mean_trials(_table(text), search, **own)


def over_guided(values: Values, search: str) -> float:
    """Mean trials of a search over those of the guided one."""
    text = json.dumps({name: values[name] for name in ("budget", "separation", "carried")})
    return _trials(text, search) / _trials(text, "guided")


def interplay(values: Values) -> float:
    """Best of the whole table over the best where no stage may spend more than its half."""
    found = table(values)
    half = [
        stage.cost[found.choices[:, s, 0], found.choices[:, s, 1]] <= found.budget / 2
        for s, stage in enumerate(found.stages)
    ]
    return float(found.accuracy.max() / found.accuracy[np.logical_and.reduce(half)].max())


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "random": lambda v: over_guided(v, "random"),
        "bayes": lambda v: over_guided(v, "bayes"),
        "by_stage": lambda v: over_guided(v, "by_stage"),
        "interplay": interplay,
    }
