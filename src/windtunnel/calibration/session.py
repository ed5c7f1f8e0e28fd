"""One calibration from start to end: cases that are not on disk yet, run and fitted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from windtunnel.calibration import machine as here
from windtunnel.calibration.cases import Case, Machine, cases
from windtunnel.calibration.profile import Calibration, calibrated
from windtunnel.calibration.store import Store
from windtunnel.errors import BadInput, Problem

Progress = Callable[[int, int], None]


def calibrate(
    *,
    ranks: int = 1,
    kind: Literal["cpu", "gpu", "auto"] = "auto",
    store: Path | None = None,
    report: Progress | None = None,
    seconds: float = 300.0,
) -> Calibration:
    """Measure the machine with PyTorch and fit a device profile.

    Args:
        ranks: processes that share it: each is one device of the profile, and they measure at the same time.
        kind: what to measure; auto: a GPU where PyTorch sees one.
        store: measurements are kept here; those of an interrupted run are not repeated.
        report: called with cases done and in all.
        seconds: no new case starts later.

    Raises:
        BadInput: no PyTorch, more ranks than cores, no GPU.
    """
    here.torch_or_refuse()
    chosen = _kind(kind)
    _check(ranks, chosen)
    sheet = here.sheet() if chosen == "gpu" else None
    own = here.facts(ranks)
    kept = Store.open(store, here.conditions(chosen, ranks))
    every = cases(
        Machine(
            chosen,
            here.formats(chosen),
            sheet.memory_bytes if sheet else own["memory_bytes"],
            sheet.l2_bytes if sheet else own["cache_bytes"],
            ranks,
        )
    )
    todo = [case for case in every if case.key not in kept.found]
    skipped = _run(todo, len(every), ranks, chosen, kept, report, seconds)
    found = calibrated(kept, sheet, own, ranks)
    if skipped:
        lines = tuple(f"{key}: not measured: {why}" for key, why in skipped.items())
        found = replace(found, warnings=(*found.warnings, *lines))
    return found


SAMPLED = ("gemm", "thin", "pointwise", "attention")
"""Kinds of cases that are measured once more to see whether the machine is what it was."""
_SHORT_S = 0.02


def drift(store: Path, ranks: int, kind: Literal["cpu", "gpu"]) -> dict[str, float]:
    """How much longer cases take now than when they were calibrated: of each kind the two longest of up to 20 ms again.

    Args:
        store: measurements of a calibration.
        ranks: processes that share the machine.
        kind: what was measured.

    Returns:
        Kind → seconds now over seconds then. Empty where the file is absent or was made under other conditions.
    """
    if not store.exists():
        return {}
    kept = Store.open(store, here.conditions(kind, ranks))
    then = [
        one
        for name in SAMPLED
        for one in sorted((m for m in kept.of(name) if m.median_s < _SHORT_S), key=lambda m: m.median_s)[-2:]
    ]
    now = Store(None, {})
    _run([m.case for m in then], len(then), ranks, kind, now, None, 60.0)
    ratios: dict[str, list[float]] = {}
    for one in then:
        if again := now.found.get(one.case.key):
            ratios.setdefault(one.case.kind, []).append(again.median_s / one.median_s)
    return {name: statistics.geometric_mean(own) for name, own in ratios.items()}


def _kind(kind: str) -> Literal["cpu", "gpu"]:
    if kind == "gpu" and not here.has_gpu():
        raise BadInput(Problem("--on", "PyTorch sees no GPU here; leave it out or say cpu", kind))
    return "gpu" if kind != "cpu" and here.has_gpu() else "cpu"


def _check(ranks: int, kind: str) -> None:
    most = here.cores() if kind == "cpu" else int(here.torch_or_refuse().cuda.device_count())
    if not 1 <= ranks <= most:
        raise BadInput(Problem("--ranks", f"must be 1 to {most}: this machine has no more", ranks))


def _run(
    todo: list[Case], total: int, ranks: int, kind: str, kept: Store, report: Progress | None, seconds: float
) -> dict[str, str]:
    skipped: dict[str, str] = {}
    begun = time.monotonic()
    done = total - len(todo)

    def tell() -> bool:
        nonlocal done
        done += 1
        if report is not None:
            report(done, total)
        return time.monotonic() - begun < seconds

    if ranks > 1:
        from windtunnel.calibration.ranks import measured_together

        threads = max(here.cores() // ranks, 1)
        for one in measured_together(
            todo, ranks=ranks, threads=threads, kind=kind, skipped=lambda key, why: skipped.update({key: why})
        ):
            kept.add(one)
            if not tell():
                break
        return skipped
    import torch

    from windtunnel.calibration.bench import keep_freed_memory, measure

    keep_freed_memory()
    device = torch.device("cuda" if kind == "gpu" else "cpu")
    for case in todo:
        try:
            kept.add(measure(case, device))
        except (RuntimeError, NotImplementedError) as error:
            skipped[case.key] = str(error).splitlines()[0]
        if not tell():
            break
    return skipped
