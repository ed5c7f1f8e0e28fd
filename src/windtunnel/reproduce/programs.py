"""Programs of model calls that claims share: equal scenarios are simulated once."""

from __future__ import annotations

import json
from functools import lru_cache

from windtunnel import api
from windtunnel.programs.result import Point
from windtunnel.reproduce.settings import Values


@lru_cache(maxsize=256)
def _reasoned(text: str) -> tuple[Point, ...]:
    return api.simulate_programs(json.loads(text)).points


def reasoned(scenario: Values) -> tuple[Point, ...]:
    """All candidates of a scenario for `reason`, in its order."""
    return _reasoned(json.dumps(scenario, sort_keys=True))


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
