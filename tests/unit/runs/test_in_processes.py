"""Replications in processes are those of one process, to the last bit."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel.kernel_cache import is_compiled
from windtunnel.runs.event_loop import in_processes
from windtunnel.runs.event_loop.in_processes import replications_in
from windtunnel.runs.event_loop.program import Replication
from windtunnel.runs.event_loop.replicate import KERNEL, jitted, replications
from windtunnel.runs.prepare_run import PreparedRun
from windtunnel.runs.simulate import prepared_run

EXAMPLE = Path(__file__).parents[3] / "examples" / "llama3-70b-run.yaml"
COUNT = 40


@pytest.fixture(scope="module")
def prepared() -> PreparedRun:
    """A run whose loop is compiled."""
    x = prepared_run(EXAMPLE)
    list(replications(x.program, x.frailty, 1, 1, jitted))
    assert is_compiled(KERNEL)
    return x


def bits(runs: list[Replication]) -> list[tuple[Any, ...]]:
    """Runs as what can be compared."""
    rows = []
    for r in runs:
        rows.append(
            tuple(v.tobytes() if isinstance(v, np.ndarray) else repr(v) for v in map(r.__getattribute__, NAMES))
        )
    return rows


NAMES = tuple(Replication.__dataclass_fields__)


def test_processes_change_no_bit(prepared: PreparedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    x = prepared
    used = []
    elsewhere = in_processes._elsewhere
    monkeypatch.setattr(in_processes, "_elsewhere", lambda *a: used.append(a) or elsewhere(*a))
    there = list(replications_in(2, x.program, x.frailty, COUNT, 7, worth_s=0.0))
    here = list(replications(x.program, x.frailty, COUNT, 7))
    assert used and bits(there) == bits(here)
    assert len({row for row in bits(here)}) == COUNT


def test_little_work_starts_no_process(prepared: PreparedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_processes, "_elsewhere", lambda *a: pytest.fail("processes were started"))
    x = prepared
    assert len(list(replications_in(2, x.program, x.frailty, 5, 7))) == 5
    spot = replace(x.program, draw_market=lambda seed: x.program.market)
    assert len(list(replications_in(2, spot, x.frailty, 5, 7, worth_s=0.0))) == 5


def _dies(parent: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_processes_that_die_cost_nothing(prepared: PreparedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    x = prepared
    monkeypatch.setattr(in_processes, "_begin", _dies)
    there = list(replications_in(2, x.program, x.frailty, COUNT, 7, worth_s=0.0))
    assert bits(there) == bits(list(replications(x.program, x.frailty, COUNT, 7)))


def test_programs_in_any_layout_are_one_specialisation_of_the_loop(prepared: PreparedRun) -> None:
    from windtunnel.runs.event_loop.kernels.loop import replicate

    x = prepared.program
    kinds = x.kinds._replace(rate=np.repeat(x.kinds.rate, 2)[::2], per=x.kinds.per.astype(np.int32))
    tiers = x.tiers._replace(load_s=x.tiers.load_s.astype(int))
    for program in (x, replace(x, kinds=kinds, tiers=tiers)):
        list(replications(program, prepared.frailty, 1, 1, jitted))
    assert len(replicate.signatures) == 1
