"""Limit laws of every technique in the registry, generated from what each declares (`Technique.limits`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, pairwise
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from windtunnel import api, catalog
from windtunnel.cost.coefficients import Coefficients
from windtunnel.errors import BadInput, Infeasible
from windtunnel.pricing.segments import simulate_segments
from windtunnel.program.segment import COMM, COMPUTE, Launch, Segment
from windtunnel.scenarios.load import load_scenario
from windtunnel.serving.simulate import prepare
from windtunnel.specs.cluster import ClusterRef
from windtunnel.techniques import REGISTRY, Technique, applied
from windtunnel.techniques.limits import FREE, Limits, free_case, merged, more, with_technique

pytestmark = pytest.mark.property

CLUSTER = catalog.resolve_cluster(ClusterRef(device="h100-sxm-80gb", nodes=1, devices_per_node=8))
TECHNIQUES = [technique for _, technique in REGISTRY.items()]
LONG = {"des-loc", "dual-batch-overlap", "intellect-1", "lamina", "nanoflow", "sparseloco"}
"""Techniques whose own cases take seconds: the long suite has them."""
DECLARED = [technique for technique in TECHNIQUES if technique.limit_cases is not None]


def each(techniques: Sequence[Technique]) -> Any:
    """Runs a test for each technique; all tests of one share a process, and with it what was simulated."""
    long = {t.id: [pytest.mark.slow] if t.id in LONG else [] for t in techniques}
    cases = [pytest.param(t, id=t.id, marks=[pytest.mark.xdist_group(t.id), *long[t.id]]) for t in techniques]
    return pytest.mark.parametrize("technique", cases)


COSTS_AT_MOST = 0.15
"""What a technique may lose where there is nothing to save; that it loses elsewhere is a test of its own."""


@cache
def _run(text: str) -> Any:
    scenario = yaml.safe_load(text)
    if "serving" in scenario:
        return api.simulate_serving(scenario)
    if "run" in scenario:
        return api.simulate_run(scenario, sensitivities=False)
    if "jobs" in scenario:
        return api.simulate_cluster(scenario)
    if "learning" in scenario:
        return api.simulate_learning(scenario, cache=False)
    if "programs" in scenario:
        return api.simulate_programs(scenario)
    return api.simulate_training(scenario, sensitivities=False)


def run(scenario: Mapping[str, Any]) -> Any:
    """A prediction; equal scenarios are run once."""
    return _run(yaml.safe_dump(merged(scenario, {}), sort_keys=True))


def limits(technique: Technique) -> Limits:
    assert technique.limit_cases is not None
    return technique.limit_cases


def gain(technique: Technique, scenario: Mapping[str, Any], knobs: Mapping[str, Any] | None = None) -> float:
    """Relative amount by which the declared measure shrinks."""
    return limits(technique).gain(run(scenario), run(with_technique(scenario, technique.id, knobs)))


@each(TECHNIQUES)
def test_a_technique_that_works_declares_its_limits(technique: Technique) -> None:
    assert technique.status != "works" or technique.kind != "technique" or technique.limit_cases is not None
    assert technique.status != "partial" or technique.missing
    assert technique.limit_cases is None or technique.limit_cases.loses or technique.limit_cases.pays, (
        "what does it cost?"
    )


@each(DECLARED)
def test_it_gains_in_its_own_case(technique: Technique) -> None:
    assert gain(technique, limits(technique).scenario) > limits(technique).vanishes


@each(DECLARED)
def test_the_gain_vanishes_where_the_resource_is_free(technique: Technique) -> None:
    declared = limits(technique)
    saved = technique.saves if technique.saves in FREE else technique.relieves
    free = free_case(declared.scenario, saved, declared.free)
    assert free is not None, f"{technique.id}: nothing says how '{technique.saves}' becomes free"
    assert -max(declared.vanishes, COSTS_AT_MOST) < gain(technique, free) < declared.vanishes


@each([t for t in DECLARED if limits(t).loses])
def test_it_loses_where_its_cost_is_not_paid_back(technique: Technique) -> None:
    declared = limits(technique)
    assert gain(technique, merged(declared.scenario, declared.costly_scenario), declared.costly) < 0


@each([t for t in DECLARED if limits(t).pays])
def test_it_pays_with_what_it_declares(technique: Technique) -> None:
    declared = limits(technique)
    case = merged(declared.scenario, declared.costly_scenario)
    before, after = run(case), run(with_technique(case, technique.id, declared.costly))
    assert declared.value(after, declared.pays) > declared.value(before, declared.pays)


@each([t for t in DECLARED if limits(t).serves])
def test_every_request_is_answered_no_faster_than_products_allow(technique: Technique) -> None:
    declared = limits(technique)
    before, after = run(declared.scenario), run(with_technique(declared.scenario, technique.id))
    assert after.completed + after.rejected == before.completed + before.rejected == after.requests
    prepared = prepare(merged(declared.scenario, {}))
    peak = before.num_devices * max(prepared.cluster.device.peak_flop_per_s.values())
    for result in (before, after):
        assert prepared.iteration.linear.flop_per_token * result.total_tokens_per_s < peak
    assert technique.id in after.techniques and technique.paper.line() in after.citations


@each([t for t in DECLARED if limits(t).trains])
def test_flops_are_conserved(technique: Technique) -> None:
    declared = limits(technique)
    before, after = run(declared.scenario), run(with_technique(declared.scenario, technique.id))
    flop = [r.hardware_tflops_per_device * r.step_time_s * r.num_devices for r in (before, after)]
    if declared.repeats_work:
        assert flop[0] != pytest.approx(flop[1], rel=1e-9)
    else:
        assert flop[0] == pytest.approx(flop[1], rel=1e-9)
    model_flop = [r.model_tflops_per_device * r.step_time_s * r.num_devices for r in (before, after)]
    assert model_flop[0] == pytest.approx(model_flop[1], rel=1e-9)


@each([t for t in DECLARED if limits(t).trains])
def test_a_step_trains_the_same_tokens_no_faster_than_products_allow(technique: Technique) -> None:
    scenario = limits(technique).scenario
    before, after = run(scenario), run(with_technique(scenario, technique.id))
    if not technique.workload:
        assert after.tokens_per_s * after.step_time_s == pytest.approx(before.tokens_per_s * before.step_time_s)
    assert 0 < after.hfu < 1
    assert sum(after.breakdown.values()) == pytest.approx(after.step_time_s)
    assert technique.id in after.techniques and technique.paper.line() in after.citations


@each([t for t in DECLARED if limits(t).monotone])
def test_the_gain_shrinks_as_there_is_more_of_the_resource(technique: Technique) -> None:
    scenario = limits(technique).scenario
    cases = [more(scenario, technique.relieves, factor) for factor in (1, 2, 4, 16)]
    gains = [gain(technique, case) for case in cases if case is not None]
    assert len(gains) == 4, f"{technique.id}: nothing says how there is more of '{technique.relieves}'"
    assert all(later <= earlier + 1e-3 for earlier, later in pairwise(gains)), gains
    assert gains[-1] < gains[0]


@each([t for t in DECLARED if t.knobs and limits(t).trains])
def test_knobs_at_the_ends_of_their_ranges_run_or_say_what_is_wrong(technique: Technique) -> None:
    """One knob at a time; an end that the scenario cannot have is refused by name, never by a crash."""
    for name, knob in technique.knobs.items():
        for end in (*knob.choices, knob.low, knob.high):
            if end is None or knob.problem(end) is not None:
                continue
            try:
                result = run(with_technique(limits(technique).scenario, technique.id, {name: end}))
            except (BadInput, Infeasible):
                continue
            assert 0 < result.step_time_s < float("inf") and result.hfu < 1, (name, end)


@each([t for t in DECLARED if t.workload])
def test_settings_twice_are_settings_once(technique: Technique) -> None:
    """The section is rewritten wherever a scenario is read, also one that was written back."""
    (one,) = applied([technique.id])
    training = load_scenario(merged(limits(technique).scenario, {})).training
    assert training is not None
    once = one.on_workload(training)
    assert one.on_workload(once) == once


SMALL_KNOBS: Mapping[str, dict[str, Any]] = {
    "megatron-3d": {"chunks": 4},
    "breadth-first": {"chunks": 4},
    "ring-attention": {"degree": 2},
    "ulysses": {"degree": 2},
    "mics": {"group": 2},
    "lasp": {"degree": 2},
}
"""Sizes that fit sixty-four devices and thirty-two layers."""
TRAINING = [t.id for t in TECHNIQUES if "training" in t.scopes]
SERVED = [t.id for t in TECHNIQUES if "serving" in t.scopes and not (t.serving and t.serving.layers)]
"""Without those that simulate every knot of the iteration model, which takes seconds."""
NEIGHBOURS = 4
"""Techniques that each one is run beside; the others are only checked for conflicts."""


def entries(ids: Sequence[str]) -> list[Any]:
    return [{id: SMALL_KNOBS.get(id, {})} for id in ids]


def conflict(ids: Sequence[str]) -> str:
    """What a list of techniques is refused for."""
    try:
        applied(entries(ids))
    except BadInput as error:
        return str(error)
    return ""


def test_any_two_conflict_or_go_together_whatever_their_order() -> None:
    conflicts = 0
    for pair in combinations([t.id for t in TECHNIQUES], 2):
        one, other = conflict(pair), conflict(pair[::-1])
        assert bool(one) == bool(other), pair
        if one:
            conflicts += 1
            assert re.search("conflicts with|needs", one), one
            assert one.rpartition(": ")[2] == other.rpartition(": ")[2] or "needs" in one, pair
        else:
            assert [x.technique.id for x in applied(entries(pair))] == [
                x.technique.id for x in applied(entries(pair[::-1]))
            ]
    assert conflicts > 0


def neighbours(ids: Sequence[str], place: int, count: int) -> list[tuple[str, str]]:
    """Pairs of one with those after it, in a circle, that do not conflict."""
    one = ids[place]
    others = [ids[(place + step) % len(ids)] for step in range(1, len(ids))]
    return [(one, other) for other in others if not conflict((one, other))][:count]


@pytest.mark.parametrize("place", range(len(TRAINING)), ids=TRAINING)
def test_it_runs_beside_others_or_the_plan_is_refused(place: int) -> None:
    """A step time that is that of the list, or one line a problem: neighbours in a fixed order, others next time."""
    scenario = {
        "model": "gpt3-6.7b",
        "cluster": {"device": "a100-sxm-80gb", "nodes": 8, "devices_per_node": 8},
        "training": {"seq_len": 2048, "global_batch": 64, "attention": "unfused"},
        "plan": {"tp": 2, "pp": 4, "mbs": 1, "sp": False},
    }
    for pair in neighbours(TRAINING, place, NEIGHBOURS):
        try:
            result = run({**scenario, "techniques": entries(pair)})
        except BadInput as error:
            assert error.problems and all(problem.rule for problem in error.problems), pair
            continue
        assert set(pair) <= set(result.techniques) and 0 < result.step_time_s < float("inf"), pair


@pytest.mark.parametrize("place", range(len(SERVED)), ids=SERVED)
def test_it_serves_beside_another_or_the_deployment_is_refused(place: int) -> None:
    """Every request is answered, or one line a problem."""
    scenario = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "serving": {
            "pools": [{"replicas": 4, "plan": {"tp": 2}}],
            "traffic": {"rate_per_s": 20, "num_requests": 40, "input_tokens": 500, "output_tokens": 20, "seed": 1},
        },
    }
    for pair in neighbours(SERVED, place, 1):
        try:
            result = run({**scenario, "techniques": entries(pair)})
        except (BadInput, Infeasible) as error:
            assert str(error), pair
            continue
        assert result.completed + result.rejected == 40 and set(pair) <= set(result.techniques), pair


@settings(max_examples=40)
@given(
    pairs=st.lists(st.tuples(st.floats(1e-4, 1e-2), st.floats(1e-5, 2e-2), st.booleans()), min_size=1, max_size=5),
    ranks=st.sampled_from([2, 4, 8]),
    knobs=st.fixed_dictionaries(
        {
            "method": st.sampled_from(["ring", "chunked"]),
            "chunks": st.integers(2, 16),
            "comm_sms": st.sampled_from([None, 0, 8]),
        }
    ),
)
def test_overlap_stays_between_its_bounds(
    pairs: list[tuple[float, float, bool]], ranks: int, knobs: dict[str, Any]
) -> None:
    """max(compute, communication) ≤ overlapped time ≤ the serial chain and what the pieces cost on top."""
    segment = Segment("L", "F", [])
    for i, (compute_s, comm_s, gather) in enumerate(pairs):
        name = f"g{i}"
        product = Launch(
            name=name,
            tag="gemm",
            stream=COMPUTE,
            alone_s=compute_s,
            after=[],
            sm=1.0,
            flop=1e12 * compute_s,
            splittable=True,
        )
        operation, prefix = ("all_gather", "tp_gather_") if gather else ("reduce_scatter", "tp_reduce_")
        transfer = Launch(
            name=prefix + name,
            tag="tp",
            stream=COMM,
            alone_s=comm_s,
            after=[],
            sm=0.1,
            up_bytes=1.0,
            beside=name,
            ranks=ranks,
            operation=operation,
        )
        for launch in (transfer, product) if gather else (product, transfer):
            launch.after = [len(segment.launches) - 1] if segment.launches else []
            segment.append(launch)
    (chosen,) = applied([{"tp-overlap": knobs}])
    new = chosen.on_segment(segment, CLUSTER)
    serial, overlapped = simulate_segments([segment, new], CLUSTER, Coefficients(), [0.0, 0.0], [0.0, 0.0])
    by_stream = {s: sum(x.alone_s for x in new.launches if x.stream == s) for s in (COMPUTE, COMM)}
    assert overlapped.device_s >= max(by_stream.values()) * (1 - 1e-9)
    assert overlapped.device_s <= sum(by_stream.values()) * (1 + 1e-9) + 1e-12
    assert overlapped.flop == pytest.approx(serial.flop)
    assert overlapped.up_bytes == pytest.approx(serial.up_bytes)
    assert sum(overlapped.busy_s.values()) == pytest.approx(overlapped.device_s)
