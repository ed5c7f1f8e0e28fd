"""Laws of the engine on generated programs: conservation, bounds, order, symmetry, and equality with its twin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from equitable_partition import _mix, equitable_partition, quotient_resources
from hypothesis import given, settings
from hypothesis import strategies as st
from makespan_bound import bound
from program_problems import problems

from windtunnel.arrays import Ints
from windtunnel.engine import simulate
from windtunnel.program.builder import ProgramBuilder, SlotDemand
from windtunnel.program.tables import Resources, Streams, TaskTable

pytestmark = pytest.mark.property
Program = tuple[TaskTable, Streams, Resources]
laws = settings(derandomize=True, max_examples=60, deadline=None)
seeds = st.integers(0, 10**6)


def random_program(seed: int, *, n: int = 40, slots: bool = True) -> Program:
    """Streams of mixed priority, sharing beyond capacity, rendezvous, dependencies, and kernels that yield slots."""
    rng = np.random.default_rng(seed)
    builder = ProgramBuilder()
    streams = [builder.stream(f"s{i}", priority=int(rng.integers(0, 3))) for i in range(int(rng.integers(1, 8)))]
    rates = [builder.rate(f"r{i}", float(rng.choice([1.0, 2.0, 0.7]))) for i in range(int(rng.integers(1, 5)))]
    for name in ("p0", "p1"):
        builder.slot_pool(name, int(rng.integers(4, 20)))
    alone = rng.choice([0.0, 1.0, 0.5, 0.1, rng.random()], n)
    wanted = rng.integers(1, 12, n)
    builder.add(
        alone,
        stream=rng.integers(0, len(streams), n),
        rank_class=rng.integers(0, 2, n),
        weight=rng.choice([1.0, 1.0, 2.0, 0.5], n),
        slots=SlotDemand(
            pool=np.where(rng.random(n) < 0.6 * slots, rng.integers(0, 2, n), -1),
            slots=wanted,
            min_slots=np.minimum(rng.integers(1, 5, n), wanted),
            waves=rng.integers(0, 7, n),
        ),
    )
    for rate in rates:
        used = np.flatnonzero((rng.random(n) < 0.4) & (alone > 0.0))
        builder.add_rates(used, rate, alone[used] * rng.uniform(0.2, 0.7, len(used)))
    late = np.flatnonzero((rng.random(n) < 0.3) & (np.arange(n) > 0))
    builder.add_dependencies(late, (late * rng.random(len(late))).astype(int))
    meets = np.flatnonzero(rng.random(n) < 0.15)
    builder.add_streams(meets, rng.integers(0, len(streams), len(meets)))
    return builder.build()


def scaled(program: Program, k: float) -> Program:
    """All capacities × k and all times / k."""
    tasks, streams, resources = program
    return (
        replace(tasks, alone_s=tasks.alone_s / k),
        streams,
        replace(resources, capacity=resources.capacity * k),
    )


@laws
@given(seed=seeds, slots=st.booleans())
def test_kernel_and_twin_agree_bit_for_bit(seed: int, slots: bool) -> None:
    program = random_program(seed, slots=slots)
    assert problems(*program) == []
    fast, plain = simulate(*program), simulate(*program, reference=True)
    assert fast.start_s.tobytes() == plain.start_s.tobytes()
    assert fast.end_s.tobytes() == plain.end_s.tobytes()
    assert fast.blame.tobytes() == plain.blame.tobytes()


def test_generated_programs_reach_the_rare_paths() -> None:
    """The law above means something only if its programs share, wait for slots, run with fewer and give them up."""
    shared = partial = given_up = 0
    for seed in range(40):
        tasks, streams, resources = random_program(seed)
        line = simulate(tasks, streams, resources)
        shared += int(np.sum((line.end_s - line.start_s > tasks.alone_s * 1.01) & (tasks.slot_pool < 0)))
        roomy = replace(resources, capacity=resources.capacity * 1e6)  # without contention for rates …
        line = simulate(tasks, streams, roomy)
        partial += int(np.sum((line.end_s - line.start_s > tasks.alone_s * 1.01) & (tasks.slot_pool >= 0)))
        released = np.where(line.blame >= 0, line.end_s[line.blame], 0.0)
        given_up += int(np.sum(line.start_s != released))  # … a start at no task's end is at a wave boundary
    assert shared > 20
    assert partial > 20
    assert given_up > 10


@laws
@given(seed=seeds)
def test_makespan_lies_between_bound_and_sum(seed: int) -> None:
    program = random_program(seed, slots=False)
    makespan = simulate(*program).makespan_s
    assert bound(*program) <= makespan * (1 + 1e-9)
    assert makespan <= program[0].alone_s.sum() * (1 + 1e-9)


@laws
@given(seed=seeds)
def test_bound_holds_with_slots(seed: int) -> None:
    program = random_program(seed)
    assert bound(*program) <= simulate(*program).makespan_s * (1 + 1e-9)


@laws
@given(seed=seeds, k=st.sampled_from([3.0, 7.0, 0.1]))
def test_everything_k_times_faster_takes_a_kth_of_the_time(seed: int, k: float) -> None:
    program = random_program(seed, slots=False)
    assert simulate(*scaled(program, k)).makespan_s * k == pytest.approx(simulate(*program).makespan_s, rel=1e-9)


@laws
@given(seed=seeds)
def test_scaling_by_a_power_of_two_is_exact_with_slots(seed: int) -> None:
    program = random_program(seed)
    assert np.array_equal(simulate(*scaled(program, 4.0)).end_s * 4.0, simulate(*program).end_s)


@laws
@given(seed=seeds, more=st.floats(1.0, 3.0))
def test_without_sharing_more_capacity_never_hurts(seed: int, more: float) -> None:
    rng = np.random.default_rng(seed)
    builder = ProgramBuilder()
    alone = rng.random(30)
    stream = rng.integers(0, 4, 30)
    for s in range(4):
        builder.stream(f"s{s}")
        builder.rate(f"r{s}", 1.0)
    builder.add(alone, stream=stream)
    builder.add_rates(np.arange(30), stream, alone * 2.0 * rng.random(30))  # a rate belongs to one stream: no sharing
    late = np.flatnonzero((rng.random(30) < 0.5) & (np.arange(30) > 0))
    builder.add_dependencies(late, (late * rng.random(len(late))).astype(int))
    tasks, streams, resources = builder.build()
    which = rng.random(4) < 0.5
    richer = replace(resources, capacity=np.where(which, more, 1.0) * resources.capacity)
    assert simulate(tasks, streams, richer).makespan_s <= simulate(tasks, streams, resources).makespan_s * (1 + 1e-12)


@laws
@given(seed=seeds, slots=st.booleans())
def test_rates_never_carry_more_than_their_capacity(seed: int, slots: bool) -> None:
    """The work of all tasks that have ended fits in what each rate could do by then."""
    tasks, streams, resources = random_program(seed, slots=slots)
    line = simulate(tasks, streams, resources)
    owner = np.repeat(np.arange(len(tasks)), np.diff(tasks.rate_ptr))
    for r, capacity in enumerate(resources.capacity):
        mine = tasks.rate_idx == r
        ended, work = line.end_s[owner[mine]], tasks.rate_work[mine]
        order = np.argsort(ended)
        assert np.all(np.cumsum(work[order]) <= capacity * ended[order] * (1 + 1e-6) + 1e-12)


def staged_program(ranks: list[tuple[int, int]], stages: int, nic: Ints, seed: int) -> ProgramBuilder:
    """Each rank (stage, replica) computes and sends, 2 chunks × 4 micro-batches, interleaved; two ranks share a NIC."""
    rng = np.random.default_rng(seed)
    steps = 8
    compute_s, send_s = rng.uniform(1, 2, (stages, steps)), rng.uniform(0.5, 1.5, (stages, steps))
    demand = rng.uniform(0.3, 0.9, (stages, steps))
    builder = ProgramBuilder()
    for j in range(int(nic.max()) + 1):
        builder.rate(f"nic{j}", 1.0)
    row = {}
    for step in range(steps):
        for r, (stage, replica) in enumerate(ranks):
            work = builder.add(compute_s[stage, step], stream=builder.stream(f"c{r}"), rank_class=r, tag="F")
            row[stage, replica, step] = send = builder.add(
                send_s[stage, step], stream=builder.stream(f"n{r}"), rank_class=r, tag="pp"
            )
            builder.add_rates(send, int(nic[r]), send_s[stage, step] * demand[stage, step])
            builder.add_dependencies(send, work)
    for (stage, replica, step), send in row.items():
        after = (
            (stage + 1, replica, step) if stage + 1 < stages else (0, replica, step + 3)
        )  # next chunk, from the start
        if after in row:
            builder.add_dependencies(row[after] - 1, send)
    return builder


@settings(derandomize=True, max_examples=15, deadline=None)
@given(seed=seeds, stages=st.sampled_from([2, 4]), replicas=st.sampled_from([2, 4, 16]), packed=st.booleans())
def test_quotient_equals_full_expansion(seed: int, stages: int, replicas: int, packed: bool) -> None:
    pairs = [(s, d) for s in range(stages) for d in range(replicas)]
    if not packed:  # neighbours on a NIC are different stages of one replica
        pairs.sort(key=lambda pair: (pair[1], pair[0]))
    nic = np.arange(len(pairs)) // 2
    full = simulate(*staged_program(pairs, stages, nic, seed).build())

    stage = np.array([s for s, _ in pairs])
    incidence = np.stack((np.arange(len(pairs)), nic), axis=1)
    classes, nic_class, multiplicity = equitable_partition(incidence, stage)
    assert len(np.unique(classes)) == stages
    members = [pairs[int(np.argmax(classes == c))] for c in range(stages)]
    representative = nic_class[nic[[int(np.argmax(classes == c)) for c in range(stages)]]]
    tasks, streams, _ = staged_program([(s, 0) for s, _ in members], stages, representative, seed).build()
    owner = np.repeat(np.arange(len(tasks)), np.diff(tasks.rate_ptr))
    factor = multiplicity[tasks.rank_class[owner], tasks.rate_idx]
    whole = Resources(np.ones(len(nic) // 2))
    small = quotient_resources(whole, nic_class)
    quotient = simulate(replace(tasks, rate_work=tasks.rate_work * factor), streams, small)
    assert quotient.makespan_s == pytest.approx(full.makespan_s, rel=1e-9)


def test_hash_of_the_partition_is_splitmix64() -> None:
    """First output of the published generator for seed 0."""
    assert int(_mix(np.zeros(1, np.uint64))[0]) == 0xE220A8397B1DCDAF
