"""What this installation has, and whether it works."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import windtunnel
from windtunnel.units import GiB

_SCENARIO: dict[str, Any] = {
    "model": "openai-community/gpt2",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 2},
    "training": {"seq_len": 1024, "global_batch": 16},
    "plan": {"tp": 2, "mbs": 4},
}
"""Small enough to be simulated in well under a second."""


def examine(*, warm: bool, needed: Sequence[str], extras: Sequence[str]) -> dict[str, Any]:
    """Versions of packages, the place of compiled code, and checks that a small prediction comes out right.

    Args:
        warm: compile every kernel now.
        needed: packages that must be there.
        extras: packages that may be there.

    Returns:
        `version`, `python`, `cores`, `memory`, `packages` and `extras` (name to version, None where absent), and
        `checks`: a list of `{name, ok, detail}`.
    """
    checks = [_packages_check(needed), _cache_check(), _prediction_check()]
    if warm:
        checks.append(_warm())
    return {
        "version": windtunnel.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count() or 1,
        "memory": f"{_memory_bytes() / GiB:.1f} GiB of memory",
        "packages": {name: _version(name) for name in needed},
        "extras": {name: _version(name) for name in extras},
        "checks": checks,
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _memory_bytes() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return math.nan


def _packages_check(needed: Sequence[str]) -> dict[str, Any]:
    missing = [name for name in needed if _version(name) is None]
    return {
        "name": "packages",
        "ok": not missing,
        "detail": f"missing: {', '.join(missing)}" if missing else "all there",
    }


def _cache_check() -> dict[str, Any]:
    """Where compiled kernels are kept, and how many are there."""
    from windtunnel.kernel_cache import BASELINE, KERNEL_SOURCES, STORED, cache_directory, why_not_stored

    try:
        directories = [Path(cache_directory(package)) for package in KERNEL_SOURCES]
    except OSError as error:
        return {"name": "compiled code", "ok": False, "detail": f"cannot be kept: {error}"}
    kept = sum(len(list(directory.glob("*.compiled"))) for directory in directories)
    where = directories[0].parent
    detail = f"{kept} kernels in {where}" if kept else f"none yet; will be kept in {where}"
    if STORED.is_dir():
        why = why_not_stored()
        detail += f"; those of this installation {f'cannot be used: {why}' if why else f'are for {BASELINE[0]}'}"
    return {"name": "compiled code", "ok": True, "detail": detail}


def _prediction_check() -> dict[str, Any]:
    """A small step, simulated by the engine in use and by its plain twin."""
    from windtunnel.engine import simulate
    from windtunnel.training.predict import prepare

    program = prepare(_SCENARIO)[0].program
    parts = program.tasks, program.streams, program.resources
    ours, plain = simulate(*parts).makespan_s, simulate(*parts, reference=True).makespan_s
    same = ours == plain and 0 < ours < math.inf
    return {"name": "prediction", "ok": same, "detail": f"{len(program.tasks)} tasks, {ours:.6g} s by both engines"}


def _warm_cluster() -> None:
    """Compile the loop over jobs."""
    import numpy as np

    from windtunnel.clusters.event_loop.records import JobTable, Rules
    from windtunnel.clusters.event_loop.run import run_queue
    from windtunnel.clusters.outages import NO_OUTAGES

    one = np.ones(1)
    jobs = JobTable(one, np.ones(1, np.int64), one, one, one, one)
    rules = Rules(0, False, 0, 0, False, np.zeros(0), 1.0, 1.0, 1)
    run_queue(jobs, rules, NO_OUTAGES, np.ones(1, np.int64))


def _warm() -> dict[str, Any]:
    """Compile what training, serving and whole runs use, and say how long it took."""
    from windtunnel.engine import block_kernel, flow_kernel, kernels, simulate_flows
    from windtunnel.kernel_cache import always_compiled, compile_seconds
    from windtunnel.runs.event_loop.replicate import jitted
    from windtunnel.runs.simulate import simulate_run
    from windtunnel.serving.simulate import simulate_serving

    traffic = {"rate_per_s": 4, "num_requests": 16, "input_tokens": 256, "output_tokens": 16}
    serving = {"engine": "vllm", "pools": [{"plan": {"tp": 1}}], "traffic": traffic}
    with always_compiled():
        simulate_serving({"model": _SCENARIO["model"], "cluster": _SCENARIO["cluster"], "serving": serving})
        _warm_cluster()
        simulate_flows([[0]], [1.0], [1.0])
        simulate_run({**_SCENARIO, "run": {"steps": 100, "replications": 1}}, sensitivities=False, run=jitted)
    loaded = ", ".join(module.__name__.rpartition(".")[2] for module in (kernels, block_kernel, flow_kernel))
    detail = f"{loaded} and the loops over requests, states of a run and jobs; compiling took {compile_seconds():.0f} s"
    return {"name": "warm", "ok": True, "detail": detail}
