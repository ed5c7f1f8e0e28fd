"""Schedules: sizes, orders that can be written by hand, the validator, and known results on small cases."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from windtunnel import schedules
from windtunnel.errors import BadInput
from windtunnel.schedules import ScheduleCosts, ScheduleLimits
from windtunnel.schedules.blocks import block_of, mean_block
from windtunnel.schedules.building_block import place_weights, v_block
from windtunnel.schedules.interleaved_1f1b import construct as interleaved
from windtunnel.schedules.table import B, F, InstructionTable, W

LETTERS = "FBW"


def order(table: InstructionTable, stage: int) -> str:
    """A stage's list as text: kind, micro-batch, and a prime per chunk."""
    rows = range(table.stage_ptr[stage], table.stage_ptr[stage + 1])
    return " ".join(f"{LETTERS[table.kind[r]]}{table.micro_batch[r]}" + "'" * int(table.chunk[r]) for r in rows)


def unit(p: int, v: int = 1, comm_s: float = 0.0) -> ScheduleCosts:
    one = np.ones((p, v))
    return ScheduleCosts(one, one, one, comm_s)


def test_the_schedules_of_the_first_core_are_there() -> None:
    wanted = {"gpipe", "1f1b", "interleaved_1f1b", "breadth_first", "zb_h1", "zb_h2", "zb_v"}
    assert wanted <= set(schedules.list_ids())


def test_orders_by_hand() -> None:
    assert order(schedules.build("gpipe", 2, 3), 0) == "F0 F1 F2 B2 B1 B0"
    one = schedules.build("1f1b", 3, 4)
    assert order(one, 0) == "F0 F1 F2 B0 F3 B1 B2 B3"
    assert order(one, 2) == "F0 B0 F1 B1 F2 B2 F3 B3"
    assert order(schedules.build("breadth_first", 2, 2, 2), 1) == "F0 F1 F0' F1' B0' B1' B0 B1"
    h1 = schedules.build("zb_h1", 2, 3)
    assert order(h1, 0) == "F0 F1 B0 W0 F2 B1 W1 B2 W2"
    assert order(h1, 1) == "F0 B0 F1 B1 W0 F2 B2 W1 W2"


def test_interleaved_follows_megatron() -> None:
    table = schedules.build("interleaved_1f1b", 2, 4, 2)
    assert order(table, 0) == "F0 F1 F0' F1' F2 B0' F3 B1' F2' B0 F3' B1 B2' B3' B2 B3"
    assert order(table, 1) == "F0 F1 F0' B0' F1' B1' F2 B0 F3 B1 F2' B2' F3' B3' B2 B3"
    all_first = schedules.build("interleaved_1f1b", 4, 4, 2)
    kinds = all_first.kind.reshape(4, -1)
    assert (kinds[:, :8] == F).all() and (kinds[:, 8:] == B).all()


def test_steady_interleaving_has_no_special_case() -> None:
    """With m = p the last stage holds one micro-batch of its last chunk at a time."""
    table = schedules.build("interleaved_1f1b_steady", 4, 4, 2)
    assert order(table, 3) == "F0 F1 F2 F3 F0' B0' F1' B1' F2' B2' F3' B3' B0 B1 B2 B3"
    plain = schedules.build("interleaved_1f1b", 4, 8, 2)
    steady = schedules.build("interleaved_1f1b_steady", 4, 8, 2)
    assert (plain.kind == steady.kind).all() and (plain.micro_batch == steady.micro_batch).all()


@pytest.mark.parametrize(
    ("id_", "p", "m", "v", "says"),
    [
        ("interleaved_1f1b", 4, 6, 2, "nearest 4 or 8"),
        ("interleaved_1f1b", 4, 8, 1, "at least two"),
        ("1f1b", 4, 8, 2, "one model chunk"),
        ("zb_v", 4, 8, 1, "two model chunks"),
        ("1f1b", 0, 8, 1, "at least 1"),
        ("zb_h3", 4, 8, 1, "did you mean 'zb_h"),
    ],
)
def test_impossible_sizes_are_bad_input(id_: str, p: int, m: int, v: int, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        schedules.build(id_, p, m, v)


def test_1f1b_takes_the_textbook_time() -> None:
    p, m = 4, 10
    _, _, makespan, bubble = schedules.evaluate(schedules.build("1f1b", p, m), unit(p))
    assert makespan == pytest.approx((m + p - 1) * 3)
    assert bubble == pytest.approx((p - 1) / (m + p - 1))


def test_hops_delay_but_do_not_occupy() -> None:
    _, end, _, _ = schedules.evaluate(schedules.build("gpipe", 3, 1), unit(3, comm_s=0.5))
    assert end.max() == pytest.approx(3 + 3 * 2 + 4 * 0.5)


def test_interleaving_divides_the_bubble() -> None:
    p, m, v = 4, 8, 4
    costs = ScheduleCosts(*(np.full((p, v), 1.0 / v) for _ in range(3)))
    makespan = schedules.evaluate(schedules.build("interleaved_1f1b", p, m, v), costs)[2]
    assert makespan == pytest.approx(3 * (m + (p - 1) / v))


def test_zb_h2_and_its_searched_relatives_have_no_bubble_when_passes_are_equal() -> None:
    assert schedules.evaluate(schedules.build("zb_h2", 4, 12), unit(4))[3] == pytest.approx(0, abs=1e-12)
    assert schedules.evaluate(schedules.build("zb_2p", 4, 12), unit(4))[3] == pytest.approx(0, abs=1e-12)
    assert schedules.evaluate(schedules.build("zb_v", 8, 24, 2), unit(8, 2))[3] < 0.05


@pytest.mark.parametrize("p", [1, 2, 3, 8, 13])
def test_the_v_block_never_holds_more_than_p_micro_batches(p: int) -> None:
    block = v_block("zb_v", p, 40)
    assert schedules.validate(block) == []
    assert (schedules.live_activations(block) <= p).all()


@pytest.mark.parametrize("p", [2, 4, 7, 16])
def test_v_half_and_v_min_trade_bubble_for_memory(p: int) -> None:
    m, costs = 4 * p, unit(p, 2)
    tables = [schedules.build(id_, p, m, 2, costs) for id_ in ("v_min", "v_half", "zb_v")]
    live = [schedules.live_activations(table).max() for table in tables]
    # hops of 4, 6 and 12 slots in all, a micro-batch of a stage is 12 slots; the turns add a constant
    assert live[0] <= (p - 1) / 3 + 2 and live[1] <= (p - 1) / 2 + 2 and live[2] <= p
    bubble = [schedules.evaluate(table, costs)[3] for table in tables]
    plain = (p - 1) / (m + p - 1)  # of 1F1B; the paper gives two thirds of it for V-Min, half for V-Half
    assert bubble[0] < 0.8 * plain and bubble[1] < 0.6 * plain and bubble[2] < 0.2 * plain


def test_weights_in_gaps_shorten_the_block_and_keep_its_order() -> None:
    block, costs = v_block("zb_v", 8, 24), unit(8, 2, comm_s=0.1)
    filled = place_weights(block, costs, np.full(8, 8.0), 1.0, 1.0)
    assert schedules.validate(filled) == []
    assert (schedules.live_activations(filled) <= 8).all()
    assert schedules.evaluate(filled, costs)[2] < schedules.evaluate(block, costs)[2]
    keep = [t.kind != W for t in (block, filled)]
    assert (block.micro_batch[keep[0]] == filled.micro_batch[keep[1]]).all()


def test_searched_schedules_obey_the_given_limit_and_pay_for_it() -> None:
    costs, makespans = unit(4), []
    for most in (4.0, 6.0, 8.0):
        limits = ScheduleLimits(max_live=np.full(4, most))
        table = schedules.build("zb_2p", 4, 16, 1, costs, limits)
        assert (schedules.live_activations(table) <= most).all()
        makespans.append(schedules.evaluate(table, costs)[2])
    assert makespans[0] > makespans[1] > makespans[2]


def test_live_activations_by_hand() -> None:
    assert schedules.live_activations(schedules.build("1f1b", 4, 8)).tolist() == [4, 3, 2, 1]
    assert schedules.live_activations(schedules.build("zb_h1", 4, 8)).tolist() == [4, 4, 4, 4]
    assert schedules.live_activations(schedules.build("zb_h2", 4, 8)).tolist() == [7, 7, 7, 7]
    assert schedules.live_activations(schedules.build("breadth_first", 2, 6, 3)).tolist() == [6, 6]


def _swapped(table: InstructionTable, a: int, b: int) -> InstructionTable:
    at = np.arange(len(table))
    at[[a, b]] = [b, a]
    return replace(table, kind=table.kind[at], micro_batch=table.micro_batch[at], chunk=table.chunk[at])


def test_the_validator_finds_what_is_wrong() -> None:
    good = schedules.build("1f1b", 2, 2)
    assert order(good, 0) == "F0 F1 B0 B1"
    assert schedules.validate(good) == []
    twice = good.micro_batch.copy()
    twice[1] = 0
    assert any("F of micro-batch 0, chunk 0 2 times" in x for x in schedules.validate(replace(good, micro_batch=twice)))
    assert any("before its F" in x for x in schedules.validate(_swapped(good, 0, 2)))
    whole = schedules.build("1f1b", 2, 4)
    stuck = _swapped(whole, int(whole.stage_ptr[1]) + 1, int(whole.stage_ptr[1]) + 4)
    assert order(stuck, 1) == "F0 F2 F1 B1 B0 B2 F3 B3"  # stage 0 sends F2 only after B0
    assert any(x.startswith("deadlock") for x in schedules.validate(stuck))
    with pytest.raises(BadInput, match="deadlock"):
        schedules.evaluate(stuck, unit(2))
    same = good.placement.copy()
    same[1] = same[0]
    assert any("permutation" in x for x in schedules.validate(replace(good, placement=same)))


def test_a_large_interleaved_table_is_built_in_milliseconds() -> None:
    best = np.inf
    for _ in range(5):
        begin = time.perf_counter()
        table = interleaved(35, 315, 3, None, None)
        best = min(best, time.perf_counter() - begin)
    assert len(table) == 66_150
    assert best <= 5e-3


def test_tables_are_cached_and_cannot_be_changed() -> None:
    table = schedules.build("1f1b", 4, 8)
    assert schedules.build("1f1b", 4, 8) is table
    searched = schedules.build("zb_2p", 4, 8, 1, unit(4))
    assert schedules.build("zb_2p", 4, 8, 1, unit(4)) is searched
    assert schedules.build("zb_2p", 4, 8, 1, unit(4, comm_s=0.1)) is not searched
    with pytest.raises(ValueError, match="read-only"):
        table.kind[0] = B
    with pytest.raises(ValueError, match="read-only"):
        searched.chunk[0] = 1


@pytest.mark.parametrize(
    ("id_", "p"), [("dualpipe", 2), ("dualpipe", 8), ("dualpipe", 16), ("dualpipev", 1), ("dualpipev", 8)]
)
def test_two_flows_leave_the_published_bubble_and_activations(id_: str, p: int) -> None:
    """DeepSeek-V3 report, Table 2: (PP/2 − 1)(F&B + B − 3W) of bubble and PP + 1 activations; V halves the stages."""
    stages, m = (p, 3 * p) if id_ == "dualpipe" else (2 * p, 6 * p)
    forward, backward, weight = 1.0, 1.0, 1.0
    costs = unit(p, 2)
    table = schedules.build(id_, p, m, 2)
    each = forward + backward + weight
    bubble = (stages / 2 - 1) * (each + backward + weight - 3 * weight)
    assert schedules.evaluate(table, costs)[2] == pytest.approx(2 * m / table.copies * each + bubble)
    assert (schedules.live_activations(table) * 2 == stages + 1).all()


def test_both_flows_are_alike() -> None:
    """The two ends of DualPipe mirror each other; half of its stages run what DualPipeV does."""
    table, half = schedules.build("dualpipe", 8, 20, 2), schedules.build("dualpipev", 4, 10, 2)
    kinds = table.kind.reshape(8, -1)
    assert (kinds == kinds[::-1]).all() and (kinds[:4] == half.kind.reshape(4, -1)).all()
    assert (table.micro_batch[table.chunk == 0] < 10).all() and (table.micro_batch[table.chunk == 1] >= 10).all()


def test_a_unit_waits_for_all_its_inputs_and_ends_as_one() -> None:
    table = schedules.build("dualpipev", 4, 12, 2)
    start, end, _, _ = schedules.evaluate(table, unit(4, 2, comm_s=0.5))
    first, last = table.units()
    dep = schedules.dependencies(table)
    outside = (dep >= 0) & (first[np.maximum(dep, 0)] != first)
    assert (last - first).max() == 2
    assert (start[first[outside]] >= end[last[dep[outside]]] - 1e-12).all()


def test_the_validator_knows_copies_and_units() -> None:
    good = schedules.build("dualpipe", 4, 8, 2)
    swapped = good.copy_of[::-1].copy()
    assert any("0 times" in x or "1 times" in x for x in schedules.validate(replace(good, copy_of=swapped)))
    over = good.joined.copy()
    over[good.stage_ptr[1] - 1] = True
    assert schedules.validate(replace(good, joined=over)) == ["a unit reaches over the end of a stage"]
    every = np.ones(len(good), np.bool_)
    every[good.stage_ptr[1:] - 1] = False
    assert any("deadlock" in x for x in schedules.validate(replace(good, joined=every)))


@pytest.mark.parametrize(("p", "m", "v"), [(4, 14, 2), (8, 30, 4), (8, 45, 1)])
def test_units_of_2p_minus_1_leave_no_bubble(p: int, m: int, v: int) -> None:
    """ZeroPP with equal passes: the first stage never waits, weight gradients fill the end of each unit."""
    costs = ScheduleCosts(*(np.full((p, v), 1.0 / v) for _ in range(3)))
    table = schedules.build("zeropp", p, m, v, costs)
    assert schedules.validate(table) == []
    assert schedules.evaluate(table, costs)[3] == pytest.approx(0, abs=1e-9)
    assert schedules.live_activations(table).max() <= -(-m // (m // (2 * p - 1)))


def test_smaller_units_hold_less_and_wait_more() -> None:
    p, m, v = 8, 32, 4
    costs = ScheduleCosts(*(np.full((p, v), 1.0 / v) for _ in range(3)))
    tables = [schedules.build("zeropp", p, m, v, costs, ScheduleLimits(np.full(p, float(u)))) for u in (8, 16, 32)]
    live = [schedules.live_activations(table).max() for table in tables]
    assert live == [8, 16, 32]
    assert schedules.evaluate(tables[0], costs)[3] > schedules.evaluate(tables[1], costs)[3]


def test_blocks_of_a_unit() -> None:
    """Each unit passes each chunk once forward and once backward; 1F1B without chunks is one block each way."""
    table = schedules.build("zeropp", 4, 14, 3)
    blocks = block_of(table)
    assert len(np.unique(blocks[blocks >= 0])) == 4 * 2 * (2 * 3)
    assert mean_block(table) == 7
    assert (blocks[table.kind == W] == -1).all()
    assert mean_block(schedules.build("1f1b", 4, 14)) == 14
    assert mean_block(schedules.build("interleaved_1f1b", 4, 16, 2)) == 4
