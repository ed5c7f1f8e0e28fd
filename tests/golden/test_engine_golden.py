"""Programs whose exact times are written down (nine digits)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from windtunnel.engine import simulate
from windtunnel.program.builder import ProgramBuilder, SlotDemand

pytestmark = pytest.mark.golden


@pytest.mark.parametrize("reference", [False, True])
def test_four_task_anomaly_a_faster_link_makes_the_program_slower(reference: bool) -> None:
    """A (link) → B (memory), C (memory) → D: with a slow link C has the memory to itself, with a fast one B joins it.

    Link 1: A 0–2, C 0–2, B 2–4, D 2–12. Link 2: A 0–1; B and C share the memory from 1, C ends at 3, D at 13.
    """
    b = ProgramBuilder()
    link, memory = b.rate("link", 1.0), b.rate("memory", 1.0)
    first = b.add([1.0, 2.0, 2.0, 10.0], stream=[b.stream(name) for name in "abcd"])
    b.add_rates([first, first + 1, first + 2], [link, memory, memory], 2.0)
    b.add_dependencies([first + 1, first + 3], [first, first + 2])
    tasks, streams, resources = b.build()
    slow = simulate(tasks, streams, resources, reference=reference)
    fast = simulate(tasks, streams, replace(resources, capacity=np.array([2.0, 1.0])), reference=reference)
    assert slow.end_s == pytest.approx([2.0, 4.0, 2.0, 12.0], rel=1e-9)
    assert fast.end_s == pytest.approx([1.0, 4.0, 3.0, 13.0], rel=1e-9)


@pytest.mark.parametrize("reference", [False, True])
def test_one_forward_one_backward_has_the_textbook_bubble(reference: bool) -> None:
    """1F1B, p stages, m micro-batches, no communication: (m + p − 1)(f + b) (Narayanan et al. 2021, section 2.2.1)."""
    p, m, f, back = 4, 8, 1.0, 2.0
    b = ProgramBuilder()
    row: dict[tuple[str, int, int], int] = {}
    for stage in range(p):
        warm = min(p - 1 - stage, m)
        order = [("F", i) for i in range(warm)]
        for i in range(m - warm):
            order += [("F", warm + i), ("B", i)]
        order += [("B", i) for i in range(m - warm, m)]
        for kind, i in order:
            row[kind, stage, i] = b.add(f if kind == "F" else back, stream=b.stream(f"stage{stage}"), tag=kind)
    for (kind, stage, i), task in row.items():
        if kind == "F" and stage > 0:
            b.add_dependencies(task, row["F", stage - 1, i])
        if kind == "B":
            b.add_dependencies(task, row["F", stage, i] if stage == p - 1 else row["B", stage + 1, i])
    assert simulate(*b.build(), reference=reference).makespan_s == (m + p - 1) * (f + back)


@pytest.mark.parametrize("reference", [False, True])
def test_overlap_of_a_gemm_and_a_collective(reference: bool) -> None:
    """A ring collective holds 20 of 132 SMs and a third of the memory while three GEMMs run next to it."""
    b = ProgramBuilder()
    sm, hbm = b.slot_pool("sm", 132), b.rate("hbm", 3.35e12)
    compute, comm = b.stream("compute"), b.stream("comm", priority=1)
    b.add(
        [400e-6, 300e-6, 500e-6],
        stream=compute,
        slots=SlotDemand(pool=sm, slots=132, min_slots=1, waves=[4, 3, 5]),
        rates={hbm: [1.0e9, 0.9e9, 0.4e9]},
    )
    b.add(50e-6, stream=comm)
    b.add(700e-6, stream=comm, slots=SlotDemand(pool=sm, slots=20), rates={hbm: 0.8e9})
    line = simulate(*b.build(), reference=reference)
    # The collective starts at the first wave boundary. The rest of GEMM 1 (396 of 528 blocks, 0.75 GB) needs 4 waves on
    # 112 SMs; memory demand 1.875 + 1.143 TB/s fits in 3.35. GEMM 2 starts with 396 blocks in 4 waves; its 2.25 and
    # 1.143 TB/s do not fit, so both run at the level 3.35 / 3.392857.
    level = 3.35e12 / (0.9e9 / 400e-6 + 0.8e9 / 700e-6)
    assert line.start_s[4] == pytest.approx(100e-6, rel=1e-9)
    assert line.end_s[0] == pytest.approx(500e-6, rel=1e-9)
    collective = 500e-6 + 300e-6 / level
    assert line.end_s[4] == pytest.approx(collective, rel=1e-9)
    # 300 of GEMM 2's 400 µs are done when the collective ends, at a wave boundary: 60 blocks are left, one wave.
    assert line.end_s[1] == pytest.approx(collective + 100e-6, rel=1e-9)
    assert line.end_s[2] == pytest.approx(collective + 600e-6, rel=1e-9)
