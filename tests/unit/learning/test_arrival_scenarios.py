"""Arrival-driven algorithms from a scenario: failures, joiners, links, and what is refused."""

from __future__ import annotations

import pytest

from windtunnel.errors import BadInput
from windtunnel.learning.simulate import simulate_learning

PHONES = {
    "task": {"quadratic": {"params": 8}},
    "workers": 6,
    "steps": 40,
    "inner": "sgd",
    "lr": 0.05,
    "evaluate_every": 10,
    "step_s": 1.0,
    "parameters": 1e6,
}


def learned(**section):
    """The result of a scenario."""
    return simulate_learning({"learning": {**PHONES, **section}}, cache=False)


def test_late_joiners_of_a_scenario_take_part_from_when_they_come():
    algorithms = [{"elastic-local-sgd": {"period": 5}}]
    late, there = (learned(algorithms=algorithms, joins=joins) for joins in ([20, 20, 20], []))
    assert late.of("elastic-local-sgd").utilisation == pytest.approx(there.of("elastic-local-sgd").utilisation)
    assert late.curves[0].time_s[-1] > there.curves[0].time_s[-1]


def test_those_who_wait_for_each_other_are_told_that_nobody_joins_late():
    found = learned(algorithms=["data_parallel", {"fedbuff": {"local_steps": 5, "buffer": 2}}], joins=[20])
    assert any("join late" in warning and "data_parallel" in warning for warning in (*found.notes, *found.warnings))


def test_fedbuff_waits_for_no_shared_port():
    """Six uploads of 4 MB at once share 6 MB/s; staleness is counted, and the same link changes no bytes."""
    fedbuff = {"fedbuff": {"local_steps": 5, "buffer": 2}}
    link = {"bandwidth": "6 MB/s", "latency": "10 ms", "shared": "6 MB/s"}
    found, alone = (
        learned(algorithms=[fedbuff], link=link),
        learned(algorithms=[fedbuff], link={**link, "shared": None}),
    )
    assert found.of("fedbuff").staleness["mean"] > 0
    assert found.curves[0].time_s[-1] > alone.curves[0].time_s[-1]
    assert found.of("fedbuff").bytes_per_worker_step == pytest.approx(alone.of("fedbuff").bytes_per_worker_step)


def test_staleness_without_an_asynchronous_driver_is_refused_in_one_line():
    with pytest.raises(BadInput) as refused:
        learned(algorithms=[{"diloco": {"max_staleness": 4}}])
    (problem,) = refused.value.problems
    assert problem.field == "learning.algorithms.0.diloco.max_staleness"
    assert "wait for each other" in problem.rule
    assert "fedbuff" in problem.rule
