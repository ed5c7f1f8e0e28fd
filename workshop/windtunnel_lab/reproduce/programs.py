"""Programs of model calls that claims share: equal scenarios are simulated once."""

from __future__ import annotations

import json
from functools import lru_cache

from windtunnel import api
from windtunnel.errors import ProblemList
from windtunnel.population.resolve_population import populations
from windtunnel.programs.candidates import candidates
from windtunnel.programs.result import Point
from windtunnel.programs.run_candidate import Simulated, simulate
from windtunnel.programs.served import deploy
from windtunnel.scenarios.load import load
from windtunnel_lab.reproduce.settings import Values


@lru_cache(maxsize=256)
def _reasoned(text: str) -> tuple[Point, ...]:
    return api.simulate_programs(json.loads(text)).points


def reasoned(scenario: Values) -> tuple[Point, ...]:
    """All candidates of a scenario for `reason`, in its order."""
    return _reasoned(json.dumps(scenario, sort_keys=True))


def run_of(scenario: Values) -> Simulated:
    """The run of a scenario's only candidate, call by call: for claims about figures that a point does not have."""
    own, lines, folder = load(scenario, ())
    assert own.programs is not None and own.population is not None
    problems = ProblemList(lines)
    chosen = candidates(own.programs, (), (None,), problems)[0]
    problems.raise_if_any()
    scored = chosen.strategy.scores(chosen.knobs)
    deployed = deploy(own.model_dump(mode="json", exclude_unset=True), own, folder, chosen.model, scored=scored)
    return simulate(chosen, own.programs, populations(own.population)[""], deployed)


def on_one_node(values: Values, **programs: object) -> Values:
    """A scenario of one model on devices of one kind.

    Args:
        values: `model`, `device`, `devices` and, where it is not 1, `tp`.
        programs: section `programs`.
    """
    tp = values.get("tp", 1)
    return {
        "model": values["model"],
        "cluster": {"device": values["device"], "nodes": 1, "devices_per_node": values["devices"]},
        "serving": {"pools": [{"plan": {"tp": tp}, "replicas": values["devices"] // tp}]},
        "programs": programs,
        "population": {"beta": {"a": 1.0, "b": 1.0}},
    }
