"""Laws of schedules over random sizes: complete, free of deadlock, inside their memory, never faster than the work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windtunnel import schedules
from windtunnel.schedules import ScheduleCosts, ScheduleLimits

IDS = schedules.list_ids()
sizes = st.tuples(st.integers(1, 9), st.integers(1, 24), st.integers(1, 4))


def fitted(id_: str, p: int, m: int, v: int) -> tuple[int, int, int]:
    """The nearest sizes that a schedule can run."""
    if id_.startswith("interleaved_1f1b"):
        return p, p * max(1, m // p), max(2, v)
    if schedules.describe(id_).units:  # two flows that meet on an even number of stages
        p += p % 2
        return p, max(m + m % 2, 2 * p), 2
    if schedules.describe(id_).check(p, m, v) is None:
        return p, m, v
    return next((p, m, x) for x in (1, 2) if schedules.describe(id_).check(p, m, x) is None)


@st.composite
def costs_of(draw: st.DrawFn, p: int, v: int) -> ScheduleCosts:
    second = st.floats(0.05, 4.0)
    arrays = [np.array(draw(st.lists(second, min_size=p * v, max_size=p * v))).reshape(p, v) for _ in range(3)]
    return ScheduleCosts(*arrays, comm_s=draw(st.floats(0.0, 1.0)))


@pytest.mark.property
@pytest.mark.parametrize("id_", IDS)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(size=sizes)
def test_every_size_gives_a_valid_table(id_: str, size: tuple[int, int, int]) -> None:
    p, m, v = fitted(id_, *size)
    table = schedules.build(id_, p, m, v)
    assert schedules.validate(table) == []
    assert (table.p, table.m, table.v) == (p, m, v)
    assert len(table) == p * m * v * (3 if schedules.describe(id_).split_backward else 2) // table.copies


@pytest.mark.property
@pytest.mark.parametrize("id_", IDS)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(data=st.data(), size=sizes)
def test_time_lies_between_the_work_and_the_sum(id_: str, data: st.DataObject, size: tuple[int, int, int]) -> None:
    p, m, v = fitted(id_, *size)
    costs = data.draw(costs_of(p, v))
    table = schedules.build(id_, p, m, v, costs)
    assert schedules.validate(table) == []
    start, end, makespan, bubble = schedules.evaluate(table, costs)
    work = m * (costs.forward_s + costs.backward_s + costs.weight_s).sum(axis=1) / table.copies
    assert work.max() <= makespan * (1 + 1e-9)
    assert end.max() <= work.sum() + 2 * m * p * v * costs.comm_s + 1e-9
    assert 0 - 1e-9 <= bubble < 1
    dep = schedules.dependencies(table)
    assert (start[dep >= 0] >= end[dep[dep >= 0]] - 1e-12).all()


@pytest.mark.property
@settings(max_examples=60, deadline=None, derandomize=True)
@given(p=st.integers(1, 12), m=st.integers(1, 40), v=st.integers(2, 4))
def test_memory_laws(p: int, m: int, v: int) -> None:
    s = np.arange(p)
    live = schedules.live_activations
    assert live(schedules.build("1f1b", p, m)).tolist() == np.minimum(p - s, m).tolist()
    assert (live(schedules.build("zb_h1", p, m)) <= min(p, m)).all()
    assert (live(schedules.build("zb_h2", p, m)) <= min(2 * p - 1, m)).all()
    assert (live(schedules.build("gpipe", p, m)) == m).all()
    assert (live(schedules.build("breadth_first", p, m, v)) == m).all()
    n = p * (m // p + 2)  # more micro-batches than stages: m = p is the all-forwards case
    warmup = np.minimum(2 * (p - 1 - s) + (v - 1) * p, n * v)
    interleaved = live(schedules.build("interleaved_1f1b", p, n, v)) * v
    assert interleaved == pytest.approx(np.minimum(warmup + 1, n * v))


@pytest.mark.property
@pytest.mark.parametrize("id_", ["zb_1p", "zb_2p", "zb_v"])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data(), p=st.integers(1, 7), m=st.integers(1, 16), kept=st.floats(0.1, 1.0))
def test_any_limit_is_obeyed_without_deadlock(id_: str, data: st.DataObject, p: int, m: int, kept: float) -> None:
    v = 2 if id_ == "zb_v" else 1
    most = np.array(data.draw(st.lists(st.floats(1.0, 2.0 * p), min_size=p, max_size=p)))
    table = schedules.build(id_, p, m, v, data.draw(costs_of(p, v)), ScheduleLimits(most, kept))
    assert schedules.validate(table) == []
    assert (schedules.live_activations(table, kept) <= most + 1e-6).all()


@pytest.mark.property
@settings(max_examples=30, deadline=None, derandomize=True)
@given(p=st.integers(2, 8), factor=st.integers(2, 5), times=st.tuples(*[st.floats(0.5, 2.0)] * 3))
def test_splitting_the_backward_never_hurts_equal_stages(
    p: int, factor: int, times: tuple[float, float, float]
) -> None:
    m = factor * p
    costs = ScheduleCosts(*(np.full((p, 1), x) for x in times))
    tables = [schedules.build(i, p, m, 1, costs) for i in ("1f1b", "zb_h1", "zb_2p")]
    plain, h1, two_p = (schedules.evaluate(table, costs)[2] for table in tables)
    assert h1 <= plain * (1 + 1e-9)
    assert two_p <= h1 * (1 + 1e-9)
