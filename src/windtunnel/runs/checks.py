"""What is wrong with a run before anything of it is simulated: names, files and sizes, all at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from windtunnel.catalog.run_tables import failure_profile
from windtunnel.errors import BadInput, Problem, ProblemList, attempt
from windtunnel.runs.intensity import year_mean
from windtunnel.runs.spot.formats import read_trace
from windtunnel.runs.step_waits import STEP_WAITS
from windtunnel.specs.run import RunSpec
from windtunnel.techniques.knobs import named


def run_problems(run: RunSpec, folder: Path) -> list[Problem]:
    """Every problem of a run that needs neither its step nor its cluster to be seen.

    Args:
        run: As the scenario states it.
        folder: Folder that its files are relative to.
    """
    found: list[Problem] = []
    found += _told("run.failures", lambda: isinstance(run.failures, str) and failure_profile(run.failures))
    found += _told("run.grid", lambda: run.grid is not None and year_mean(run.grid, folder, "run.grid"))
    if (spot := run.spot) is not None:
        found += _told(
            "run.spot.trace", lambda: spot.trace is not None and read_trace(folder / spot.trace, spot.format)
        )
        if beyond := run.recovery.pool_nodes or run.recovery.shared_nodes:
            rule = "must be 0 with run.spot: the trace or its rates say which nodes come"
            name = "pool_nodes" if run.recovery.pool_nodes else "shared_nodes"
            found.append(Problem(f"run.recovery.{name}", rule, beyond))
    if run.stragglers is not None:
        name, given = named(run.stragglers.wait)
        where = "run.stragglers.wait"
        found += _told(where, lambda: STEP_WAITS.get(name, field=where).read(given, f"{where}.{name}"))
    return found


def spares_problem(run: RunSpec, nodes: int) -> list[Problem]:
    """More nodes next to the job than in it."""
    extra = run.recovery.spares + run.recovery.pool_nodes + run.recovery.shared_nodes
    if extra <= nodes:
        return []
    rule = f"spares, pool_nodes and shared_nodes must together be at most the job's {nodes} nodes"
    return [Problem("run.recovery.spares", rule, extra)]


def _told(field: str, look_up: Callable[[], object]) -> list[Problem]:
    problems = ProblemList()
    attempt(field, look_up, problems)
    try:
        problems.raise_if_any()
    except BadInput as error:
        return list(error.problems)
    return []
