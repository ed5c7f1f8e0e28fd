"""Sweeps as a call: define, compute, ask."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.commands import in_sweeps
from windtunnel.errors import BadInput
from windtunnel.specs.settings import canonical
from windtunnel.sweeps.define import Asked, define
from windtunnel.sweeps.definition import Definition, read_manifest
from windtunnel.sweeps.estimate import Estimate, estimate
from windtunnel.sweeps.execute import Outcome, Progress, Wishes, execute
from windtunnel.sweeps.executors import Executor
from windtunnel.sweeps.store import done_cells
from windtunnel.sweeps.views import query

if TYPE_CHECKING:
    import pandas as pd

INLINE_CPU_S = 2.0
"""Work below which no processes are started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where cells are computed; results are the same everywhere."""

    processes: int | None = None
    """Processes of this machine; 1: in this process; None: as many as it has CPUs, where the work is worth it."""
    ray: str | None = None
    """Address of a Ray cluster; `local` starts one here; None: no Ray."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep in its folder."""

    definition: Definition
    outcome: Outcome

    @property
    def folder(self) -> Path:
        """Where its rows are."""
        return self.outcome.folder

    def query(self, sql: str, *, unlocked: bool = False) -> pd.DataFrame:
        """Rows of a query over the views `cells`, `ok`, `draws`, `frontier`, `failures`.

        Args:
            sql: One `SELECT`, which reads the sweep alone.
            unlocked: Allow any statement of DuckDB, on any file that the user may read or write.
        """
        return query(self.folder, sql, unlocked=unlocked)

    def to_frame(self) -> pd.DataFrame:
        """All cells, one row each, in the order of the axes."""
        frame = query(self.folder, "SELECT * FROM cells")
        order = {cell.id: i for i, cell in enumerate(self.definition.cells())}
        frame = frame[frame["cell"].isin(list(order))]
        return frame.iloc[frame["cell"].map(order).argsort(kind="stable")].reset_index(drop=True)


def start(
    asked: Asked,
    out: str | Path | None = None,
    where: Where | None = None,
    *,
    extend: bool = False,
    report: Callable[[Progress], None] = lambda _: None,
) -> Sweep:
    """Compute a sweep, or what a folder of it lacks.

    Args:
        asked: Scenario, axes, command and draws.
        out: Folder; absent: a temporary one.
        where: Where cells are computed.
        extend: Add cells of another definition to what the folder has.
        report: Called as it goes on.

    Raises:
        BadInput: everything wrong with the question, at once; a folder that holds something else.
    """
    definition = define(asked)
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="windtunnel-sweep-"))
    executor = executor_of(where or Where(), definition, len(definition))
    outcome = execute(definition, folder, Wishes(executor=executor, extend=extend, report=report))
    return Sweep(definition, outcome)


def resume(
    folder: str | Path,
    where: Where | None = None,
    *,
    retry: bool = False,
    report: Callable[[Progress], None] = lambda _: None,
) -> Sweep:
    """Compute the cells that a folder lacks.

    Args:
        folder: Of the sweep.
        where: Where cells are computed; it may be elsewhere than before.
        retry: Compute also those again that ended in errors of ours or with their process.
        report: Called as it goes on.

    Raises:
        BadInput: the folder is no sweep, or this installation would compute other results than it holds.
    """
    kept = read_manifest(Path(folder))
    definition = replace(kept, physics=Definition(verb="train", scenario={}, folder="", axes=()).physics)
    try:
        missing = len(definition) - len(done_cells(Path(folder)))
    except BadInput:  # damaged: what that costs is known once it is set aside
        missing = len(definition)
    executor = executor_of(where or Where(), definition, missing)
    return Sweep(definition, execute(definition, Path(folder), Wishes(executor=executor, retry=retry, report=report)))


def forecast(asked: Asked) -> Estimate:
    """What a sweep would take."""
    return estimate(define(asked))


def executor_of(where: Where, definition: Definition, cells: int) -> Executor:
    """The executor for an amount of work: this process where starting others takes longer."""
    if where.ray is not None:
        from windtunnel.sweeps.executors.ray import OnRay

        return OnRay(None if where.ray == "local" else where.ray)
    count = where.processes
    if count is None:
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        count = cpus if cells * in_sweeps(definition.verb).cell_cpu_s > INLINE_CPU_S else 1
    count = min(count, max(1, cells))
    if count <= 1:
        from windtunnel.sweeps.executors.inline import Inline

        return Inline()
    from windtunnel.sweeps.executors.processes import Processes

    return Processes(count)


def summary(folder: Path) -> dict[str, Any]:
    """How far a sweep is: cells, those done by status, and reasons of those without an answer."""
    definition = read_manifest(folder)
    done = done_cells(folder)
    by_status: dict[str, int] = {}
    for status, _ in done.values():
        by_status[status] = by_status.get(status, 0) + 1
    reasons = query(folder, "SELECT * FROM failures LIMIT 20").to_dict("records") if done else []
    return {
        "verb": definition.verb,
        "cells": len(definition),
        "done": len(done),
        "missing": max(0, len(definition) - len(done)),
        "statuses": by_status,
        "failures": reasons,
        "fields": list(definition.fields),
        "draws": definition.draws,
        "folder": str(folder),
    }


def listed(values: Sequence[Any]) -> str:
    """Values as `--vary` takes them."""
    return "[" + ", ".join(canonical(v) for v in values) + "]"
