"""A user's own step times: a CSV of scenarios, or of changes to one scenario, each with what was measured."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from windtunnel.catalog.load import load
from windtunnel.errors import BadInput, Problem, ProblemList, nearest_name
from windtunnel.files.reading import read_text
from windtunnel.specs.cluster import ClusterSpec, MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Applied

STEP, MEMORY, SCENARIO, NAME = "step_time_s", "peak_memory_bytes", "scenario", "name"
_OWN = (SCENARIO, NAME, STEP, MEMORY)
_MOST_ROWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """One row: a step that was run, ready to be simulated."""

    label: str
    line: int
    """1-based, of the CSV."""
    step_time_s: float
    peak_memory_bytes: float | None
    model: ModelSpec
    cluster: ClusterSpec
    training: TrainingSpec
    plan: PlanSpec
    techniques: tuple[Applied, ...]


def read_logs(path: str | Path, *, scenario: str | None = None, overrides: Sequence[str] = ()) -> list[Logged]:
    """Rows of a CSV. Columns besides `scenario`, `name`, `step_time_s` and `peak_memory_bytes` are scenario fields.

    Args:
        path: the CSV; scenarios that it names are relative to it.
        scenario: file whose fields the columns change, for rows that name none.
        overrides: `key=value` settings for every row.

    Raises:
        BadInput: everything wrong with the file and its rows, at once.
    """
    file = Path(path)
    try:
        reader = csv.DictReader(io.StringIO(read_text(file, "--from-logs"), newline=""), strict=True)
        names = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = names
        lines = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise BadInput(Problem("--from-logs", f"cannot be read: {error}", str(path))) from None
    problems: list[Problem] = [*_columns(names, scenario, str(path))]
    if not lines:
        problems.append(Problem("", "holds no rows below its header", file=str(path)))
    if len(lines) > _MOST_ROWS:
        problems.append(Problem("", f"must hold at most {_MOST_ROWS} rows", len(lines), file=str(path)))
    if problems:
        raise BadInput(problems)
    rows = [_row(file, line, cells, scenario, overrides, problems) for line, cells in lines]
    found = [row for row in rows if row is not None]
    devices = {row.cluster.device.id: row.line for row in found}
    if len(devices) > 1:
        told = ", ".join(f"{name} (line {line})" for name, line in devices.items())
        problems.append(Problem("cluster.device", f"must be the same in all rows, found {told}", file=str(path)))
    if problems:
        raise BadInput(problems)
    return found


def _columns(names: list[str], scenario: str | None, path: str) -> list[Problem]:
    out = []
    if STEP not in names:
        near = nearest_name(STEP, names)
        out.append(Problem(STEP, "is required as a column: seconds of a step", nearest=near, file=path))
    if scenario is None and SCENARIO not in names:
        rule = "is required as a column, the path of each row's scenario, or give --scenario"
        out.append(Problem(SCENARIO, rule, file=path))
    if doubled := sorted({n for n in names if names.count(n) > 1}):
        out.append(Problem(", ".join(doubled), "appears twice in the header", file=path))
    known = [*_OWN, *Scenario.model_fields]
    for name in names:
        if name not in _OWN and name.partition(".")[0] not in Scenario.model_fields:
            rule = f"is no column: {', '.join(_OWN)}, or a field of a scenario such as plan.tp"
            out.append(Problem(name or "(empty)", rule, nearest=nearest_name(name, known), file=path))
    return out


def _number(text: str | None, field: str, where: tuple[str, int], problems: list[Problem]) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if math.isfinite(value) and value > 0:
        return value
    problems.append(Problem(field, "must be a number above 0", text or "", file=where[0], line=where[1]))
    return None


def _row(
    file: Path,
    line: int,
    cells: dict[str, str],
    scenario: str | None,
    overrides: Sequence[str],
    problems: list[Problem],
) -> Logged | None:
    where = (str(file), line)
    if None in cells or None in cells.values():  # what csv makes of too many or too few cells
        problems.append(Problem("", "must have as many cells as the header", file=where[0], line=line))
        return None
    cells = {key: value.strip() for key, value in cells.items()}
    seconds = _number(cells[STEP], STEP, where, problems)
    memory = _number(cells[MEMORY], MEMORY, where, problems) if cells.get(MEMORY) else None
    named = cells.get(SCENARIO)
    if not named and scenario is None:
        problems.append(Problem(SCENARIO, "is empty and no --scenario is given", file=where[0], line=line))
        return None
    source = file.parent / named if named else Path(scenario or "")
    changes = [f"{name}={value}" for name, value in cells.items() if name not in _OWN and value]
    try:
        found = resolved(source, [*overrides, *changes])
    except (BadInput, OSError) as error:
        several = error.problems if isinstance(error, BadInput) else (Problem("", str(error)),)
        problems += [replace(p, rule=f"{p.rule} (row of line {line})", file=p.file or where[0]) for p in several]
        return None
    label = cells.get(NAME) or ", ".join(changes) or named or found[0].name or f"line {line}"
    return None if seconds is None else _logged(label, line, seconds, memory, found)


def _logged(
    label: str,
    line: int,
    seconds: float,
    memory: float | None,
    found: tuple[Scenario, ModelSpec, ClusterSpec, TrainingSpec, PlanSpec, tuple[Applied, ...]],
) -> Logged:
    _, model, cluster, training, plan, techniques = found
    return Logged(
        label=label,
        line=line,
        step_time_s=seconds,
        peak_memory_bytes=memory,
        model=model,
        cluster=cluster,
        training=training,
        plan=plan,
        techniques=techniques,
    )


def resolved(
    source: Path, overrides: list[str]
) -> tuple[Scenario, ModelSpec, ClusterSpec, TrainingSpec, PlanSpec, tuple[Applied, ...]]:
    """A scenario and what it names, ready to be simulated on another profile.

    Raises:
        BadInput: everything wrong with it; unlike devices.
    """
    from windtunnel.techniques import on_workload
    from windtunnel.training.predict import look_up

    scenario, lines, folder = load(source, overrides)
    problems = ProblemList(lines)
    model, cluster, chosen = look_up(scenario, folder, problems, verb="calibrate")
    training = on_workload(chosen, scenario.training)
    problems.raise_if_any()
    if model is None or cluster is None or training is None:
        raise BadInput(Problem("training", "is required: seq_len and global_batch at least"))
    if isinstance(cluster, MixedCluster):
        raise BadInput(Problem("cluster", "must have one kind of device: a profile is of one"))
    return scenario, model, cluster, training, scenario.plan, chosen
