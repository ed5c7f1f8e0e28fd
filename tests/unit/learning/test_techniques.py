"""Techniques that name algorithms: every id is registered, knobs are the algorithm's own, and scenarios get them."""

from __future__ import annotations

import pytest

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.prepare_learning import prepare_learning
from windtunnel.techniques import REGISTRY, Technique

NAMED = [one for _, one in REGISTRY.items() if one.algorithm]


@pytest.mark.parametrize("technique", NAMED, ids=lambda one: one.id)
def test_every_algorithm_that_a_technique_names_is_registered(technique: Technique) -> None:
    kind = ALGORITHMS.get(technique.algorithm)
    assert "learning" in technique.levels and "learning" in technique.scopes
    if technique.levels == ("learning",) or technique.id == "diloco":
        assert kind.family == technique.family
        assert set(technique.knobs) <= set(kind.knobs), "its knobs would reach nobody"
        for name, knob in technique.knobs.items():
            own = kind.knobs[name]
            assert (knob.default, knob.low, knob.high, knob.choices) == (own.default, own.low, own.high, own.choices)


def test_a_technique_adds_its_algorithm_with_its_knobs() -> None:
    scenario = {
        "learning": {"task": "quadratic", "workers": 2, "steps": 10, "algorithms": ["data_parallel"]},
        "techniques": [{"diloco": {"period": 5}}],
    }
    found = prepare_learning(scenario).algorithms
    assert [a.label for a in found] == ["data_parallel", "diloco"] and found[1].knobs["period"] == 5
    listed = prepare_learning({**scenario, "learning": {**scenario["learning"], "algorithms": ["diloco"]}})
    assert [a.label for a in listed.algorithms] == ["diloco"] and listed.algorithms[0].knobs["period"] == 100
