"""The engine and the program builder on cases small enough to work out by hand."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from equitable_partition import equitable_partition, quotient_resources
from makespan_bound import bound
from program_problems import problems, validate

from windtunnel.engine import ProgramError, memory_curve, simulate
from windtunnel.program.builder import ProgramBuilder, SlotDemand
from windtunnel.program.tables import MemoryEvents, Resources, Timeline


def run(builder: ProgramBuilder, *, reference: bool = False) -> Timeline:
    program = builder.build()
    assert problems(*program) == []
    return simulate(*program, reference=reference)


def test_importing_the_engine_does_not_import_numba() -> None:
    code = "import sys, windtunnel.engine; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_streams_run_in_row_order_and_a_rendezvous_waits_for_all_of_its_streams() -> None:
    b = ProgramBuilder()
    left, right = b.stream("left"), b.stream("right")
    b.add([1.0, 2.0], stream=[left, right])
    meet = b.add(0.5, stream=left)
    b.add_streams(meet, right)
    b.add([1.0, 1.0], stream=[left, right])
    line = run(b)
    assert line.start_s.tolist() == [0.0, 0.0, 2.0, 2.5, 2.5]
    assert line.blame.tolist() == [-1, -1, 1, 2, 2]
    assert line.makespan_s == 3.5


def test_weights_set_the_shares_and_the_rest_goes_to_who_can_use_it() -> None:
    b = ProgramBuilder()
    hbm = b.rate("hbm", 1.0)
    b.add([1.0, 1.0], stream=[b.stream("a"), b.stream("b")], weight=[3.0, 1.0], rates={hbm: 1.0})
    b.add(4.0, stream=b.stream("c"), weight=1.0, rates={hbm: 0.4})  # wants a tenth: less than its share
    line = run(b)
    # Level λ: 3λ + λ + 0.1·λ = 1 until 3λ ≥ 1; λ = 1/4.1, speeds 3/4.1, 1/4.1, 1/4.1.
    first = 4.1 / 3.0
    assert line.end_s[0] == pytest.approx(first, rel=1e-12)
    # Then b and c alone: λ + 0.1·λ = 1 gives 1/1.1, until b ends.
    second = first + (1.0 - first / 4.1) * 1.1
    assert line.end_s[1] == pytest.approx(second, rel=1e-12)
    assert line.end_s[2] == pytest.approx(second + 4.0 - first / 4.1 - (second - first) / 1.1, rel=1e-12)


def test_a_bottleneck_elsewhere_leaves_capacity_to_the_others() -> None:
    b = ProgramBuilder()
    link, hbm = b.rate("link", 0.5), b.rate("hbm", 1.2)
    b.add([1.0, 1.0], stream=[b.stream("a"), b.stream("b")], rates={hbm: 1.0})
    b.add_rates(0, link, 2.0)  # task 0 can run at a quarter speed only, task 1 gets the rest of the memory
    line = run(b)
    assert line.end_s[1] == pytest.approx(1.0 / 0.95, rel=1e-12)
    assert line.end_s[0] == pytest.approx(4.0, rel=1e-12)


def slots_program(*, gemm_waves: int, high: int, low_slots: int = 132) -> ProgramBuilder:
    """A kernel of 3 s on 132 slots; a collective on 20 of them launched at 0.5 s."""
    b = ProgramBuilder()
    compute, comm = b.stream("compute"), b.stream("comm", priority=high)
    sm = b.slot_pool("sm", 132)
    b.add(3.0, stream=compute, slots=SlotDemand(pool=sm, slots=low_slots, min_slots=1, waves=gemm_waves))
    b.add(0.5, stream=comm)
    b.add(1.5, stream=comm, slots=SlotDemand(pool=sm, slots=20))
    return b


@pytest.mark.parametrize("reference", [False, True])
def test_a_kernel_yields_to_higher_priority_at_a_wave_boundary(reference: bool) -> None:
    line = run(slots_program(gemm_waves=3, high=1), reference=reference)
    assert line.start_s[2] == 1.0
    assert line.blame[2] == 0
    # 2 · 132 blocks are left: a wave of 112 to 2 s, another to 3 s, in which the collective ends at 2.5 s; the last 40
    # blocks fit in one wave.
    assert line.end_s.tolist() == [4.0, 0.5, 2.5]


def test_persistent_kernels_and_equal_priority_do_not_yield() -> None:
    assert run(slots_program(gemm_waves=0, high=1)).start_s[2] == 3.0
    assert run(slots_program(gemm_waves=3, high=0)).start_s[2] == 3.0


def test_a_kernel_on_fewer_slots_takes_the_staircase() -> None:
    b = ProgramBuilder()
    sm = b.slot_pool("sm", 132)
    b.add(10.0, stream=b.stream("comm"), slots=SlotDemand(pool=sm, slots=20))
    b.add([1.0, 1.0], stream=b.stream("compute"), slots=SlotDemand(pool=sm, slots=132, min_slots=1, waves=[2, 7]))
    line = run(b)
    assert line.end_s[1] == pytest.approx(3 / 2, rel=1e-12)  # ceil(264 / 112) = 3 waves instead of 2
    assert line.end_s[2] - line.end_s[1] == pytest.approx(9 / 7, rel=1e-12)  # ceil(924 / 112) = 9 instead of 7


def test_a_kernel_takes_freed_slots_at_its_next_wave_boundary() -> None:
    b = ProgramBuilder()
    sm = b.slot_pool("sm", 100)
    b.add(1.5, stream=b.stream("comm"), slots=SlotDemand(pool=sm, slots=50))
    b.add(4.0, stream=b.stream("compute"), slots=SlotDemand(pool=sm, slots=100, min_slots=1, waves=4))
    # 400 blocks: 2 waves of 50 to t = 2, then 300 left in 3 waves of 100.
    assert run(b).end_s[1] == pytest.approx(5.0, rel=1e-12)


def test_work_on_a_rate_is_conserved_when_slots_change() -> None:
    b = ProgramBuilder()
    sm, hbm = b.slot_pool("sm", 100), b.rate("hbm", 1.0)
    b.add(1.5, stream=b.stream("comm"), slots=SlotDemand(pool=sm, slots=50))
    b.add(4.0, stream=b.stream("compute"), slots=SlotDemand(pool=sm, slots=100, min_slots=1, waves=4), rates={hbm: 8.0})
    # 8 units: a quarter takes the first 2 s on half the slots, at demand 1; then demand 2 is slowed to 1 for 6 s.
    assert run(b).end_s[1] == pytest.approx(8.0, rel=1e-12)


def test_a_cycle_and_a_rate_without_capacity_are_named() -> None:
    b = ProgramBuilder()
    b.add([1.0, 1.0, 1.0], stream=b.stream("s"), tag="gemm", rank_class=2)
    b.add_dependencies(0, 2)
    program = b.build()
    for reference in (False, True):
        with pytest.raises(ProgramError, match=r"3 of 3 tasks never ended.*0 \(gemm, rank class 2\)"):
            simulate(*program, reference=reference)
    b = ProgramBuilder()
    b.add(1.0, stream=b.stream("s"), rates={b.rate("dead", 0.0): 1.0})
    with pytest.raises(ProgramError, match="rate they load has no capacity"):
        simulate(*b.build())


def test_bound_is_the_longest_path_or_the_busiest_rate() -> None:
    b = ProgramBuilder()
    hbm = b.rate("hbm", 1.0)
    b.add([1.0, 1.0, 1.0], stream=[b.stream("a"), b.stream("b"), b.stream("c")], rates={hbm: 0.8})
    program = b.build()
    assert bound(*program) == pytest.approx(2.4)
    assert simulate(*program).makespan_s == pytest.approx(2.4)
    b.add_dependencies([1, 2], [0, 1])
    assert bound(*b.build()) == 3.0


def test_validator_lists_all_problems_at_once() -> None:
    b = ProgramBuilder()
    hbm, sm = b.rate("hbm", 1.0), b.slot_pool("sm", 4)
    b.add(
        [1.0, 0.0, 1.0, 1.0],
        stream=b.stream("s"),
        rates={hbm: [0.0, 1.0, 0.0, 0.0]},
        slots=SlotDemand(pool=sm, slots=[1, 1, 8, 1]),
    )
    b.add_dependencies(2, 3)
    tasks, streams, resources = b.build()
    tasks = replace(tasks, alone_s=np.array([-1.0, 0.0, 1.0, 1.0]))
    found = "\n".join(problems(tasks, streams, resources))
    for text in ("alone_s must be finite", "no time cannot do work", "min_slots exceeds", "form a cycle"):
        assert text in found
    assert "rows 2, 3" in found
    with pytest.raises(AssertionError, match="invalid program"):
        validate(tasks, streams, resources)
    broken = replace(tasks, stream_idx=np.full(4, 7, np.int32), dep_ptr=np.zeros(2, np.int64))
    assert len(problems(broken, streams, resources)) == 2


def test_validator_accepts_dependencies_on_later_rows_of_other_streams() -> None:
    b = ProgramBuilder()
    b.add([1.0, 1.0, 1.0], stream=[b.stream("a"), b.stream("a"), b.stream("b")])
    b.add_dependencies(0, 2)
    assert run(b).end_s.tolist() == [2.0, 3.0, 1.0]


def events(rows: list[tuple[int, bool, float, int]]) -> MemoryEvents:
    task, at_end, size, tensor = zip(*rows, strict=True)
    return MemoryEvents(
        task=np.array(task, np.int32),
        at_end=np.array(at_end),
        bytes=np.array(size, np.float64),
        pool=np.zeros(len(rows), np.int32),
        tensor=np.array(tensor, np.int32),
        tensors=("activations", "gradients"),
    )


def test_memory_curve_names_what_is_alive_at_the_peak() -> None:
    b = ProgramBuilder()
    b.add([1.0, 1.0, 1.0], stream=b.stream("s"))
    happened = events([(0, False, 10, 0), (1, False, 5, 1), (1, True, -10, 0), (2, False, 8, 0), (2, True, -5, 1)])
    curve = memory_curve(happened, run(b)).pools[0]
    assert curve.times_s.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert curve.total_bytes.tolist() == [10.0, 15.0, 13.0, 8.0]  # at 2 s the free comes before the allocation
    assert (curve.peak_bytes, curve.peak_s) == (15.0, 1.0)
    assert curve.peak_by_tensor == {"activations": 10.0, "gradients": 5.0}


def test_pools_have_curves_of_their_own() -> None:
    b = ProgramBuilder()
    b.add([1.0, 1.0], stream=b.stream("s"))
    happened = events([(0, False, 10, 0), (1, False, 7, 1), (0, True, -10, 0), (1, True, -7, 1)])
    happened = replace(happened, pool=np.array([4, 2, 4, 2], np.int32))
    line = run(b)
    curve = memory_curve(happened, line)
    assert {pool: (c.peak_bytes, c.peak_s) for pool, c in curve.pools.items()} == {2: (7.0, 1.0), 4: (10.0, 0.0)}
    assert curve.peak_bytes == 10.0
    nothing = replace(
        happened, **{name: getattr(happened, name)[:0] for name in ("task", "at_end", "bytes", "pool", "tensor")}
    )
    assert memory_curve(nothing, line).peak_bytes == 0.0


def test_a_task_of_no_time_frees_after_it_allocates() -> None:
    b = ProgramBuilder()
    b.add([0.0, 1.0], stream=b.stream("s"))
    assert memory_curve(events([(0, True, -10, 0), (0, False, 10, 0)]), run(b)).peak_bytes == 10.0


def test_partition_of_16384_ranks_is_fast_and_equitable() -> None:
    n = 16384
    rank = np.arange(n)
    incidence = np.stack((np.concatenate((rank, rank)), np.concatenate((rank // 2, n // 2 + rank // 8))), axis=1)
    colours = rank // (n // 16)
    level = np.concatenate((np.zeros(n // 2, int), np.ones(n // 8, int)))
    best = np.inf
    for _ in range(3):
        started = time.perf_counter()
        ranks, _, multiplicity = equitable_partition(incidence, colours, resource_colours=level)
        best = min(best, time.perf_counter() - started)
    assert best < 0.05
    assert len(np.unique(ranks)) == 16
    assert multiplicity.shape == (16, 32)
    assert multiplicity.sum() == 16 * (2 + 8)


def test_partition_splits_what_only_the_network_tells_apart() -> None:
    ranks, resources, multiplicity = equitable_partition([(0, 0), (1, 0), (2, 1)], [0, 0, 0])
    assert ranks.tolist() == [0, 0, 1]
    assert resources.tolist() == [0, 1]
    assert multiplicity.tolist() == [[2.0, 0.0], [0.0, 1.0]]
    small = quotient_resources(Resources(np.array([5.0, 7.0]), ("a", "b")), resources)
    assert small.capacity.tolist() == [5.0, 7.0]
    with pytest.raises(AssertionError, match="differ in capacity"):
        quotient_resources(Resources(np.array([5.0, 7.0])), [0, 0])
