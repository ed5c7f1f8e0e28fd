"""`serve_curve`: serving under many loads, which `serve --sweep` and the studio draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT, Command, Listener, with_snippet
from windtunnel.commands.explanations import of_serving
from windtunnel.commands.serve import SNIPPET
from windtunnel.errors import BadInput, Problem
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.serving.sweeps.load_sweep import Axis, SweepResult

MOST_LOADS = 40
"""Loads of a range whose number is a page's wish."""
Elsewhere = Callable[[], Iterator[tuple[Any, Any]]]


@with_snippet(SNIPPET)
def run(
    source: Source,
    overrides: Sequence[str] = (),
    *,
    full: bool = True,
    listener: Listener = SILENT,
    axis: str = "",
    points: int | None = None,
    linear: bool = False,
    elsewhere: Callable[[Axis], Elsewhere | None] | None = None,
) -> SweepResult:
    """A serving scenario under many loads: the latency–throughput curve, its knee, where saturation begins.

    Args:
        source: Path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        full: Changes nothing.
        listener: Counts the runs.
        axis: `rate=0.5..8`, `concurrency=1,8,64`, `time_scale=0.5..4` (traces); absent: from a quarter to twice the
            load of the scenario.
        points: Loads of a range, its ends included.
        linear: Evenly spaced loads; else by equal factors.
        elsewhere: Gives what runs the points of an axis in other processes; the result is the same.

    Raises:
        BadInput: everything wrong with the scenario, or an axis that its traffic does not have.
        Infeasible: the model does not fit.
    """
    from windtunnel.serving.sweeps.load_sweep import read_axis, sweep

    del full
    read = read_axis(axis or _own_loads(source, overrides), points, linear=linear)
    there = None if elsewhere is None else elsewhere(read)
    return sweep(source, read, overrides=overrides, report=lambda runs: listener.count(runs, runs), elsewhere=there)


def page_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Axis and points from what a page of the studio sends.

    Raises:
        BadInput: too few points, or too many.
    """
    axis, given = str(options.get("axis") or ""), options.get("points")
    points = given if isinstance(given, int) and (".." in axis or not axis) else None
    if points is not None and not 2 <= points <= MOST_LOADS:
        raise BadInput(Problem("points", f"must be from 2 to {MOST_LOADS}", points))
    return {"axis": axis, "points": points}


def _own_loads(source: Source, overrides: Sequence[str]) -> str:
    """From a quarter to twice the load that the scenario's traffic has."""
    from windtunnel.scenarios.load import fields_of
    from windtunnel.specs.scenario import Scenario

    plain = source.model_dump(mode="json", exclude_unset=True) if isinstance(source, Scenario) else source
    serving = fields_of(plain, tuple(overrides))[0].get("serving")
    traffic = serving.get("traffic") if isinstance(serving, dict) else None
    if not isinstance(traffic, dict):
        raise BadInput(Problem("serving.traffic", "is required by a load curve"))
    if traffic.get("trace"):
        return "time_scale=0.25..2"
    for name, field in (("rate", "rate_per_s"), ("concurrency", "concurrency")):
        load = traffic.get(field)
        if isinstance(load, int | float) and load > 0:
            least = max(1, load // 4) if name == "concurrency" else load / 4
            return f"{name}={least:.9g}..{2 * load:.9g}"
    raise BadInput(Problem("serving.traffic", "has no load to vary; name loads such as rate=1..8"))


COMMANDS.add(
    "serve_curve",
    Command(
        id="serve_curve",
        needs=(("serving",),),
        run=run,
        result="windtunnel.serving.sweeps.load_sweep:SweepResult",
        view="serve_sweep",
        from_page=page_options,
        snippet=SNIPPET,
        explained_by=of_serving,
        part_of="serve",
    ),
)
