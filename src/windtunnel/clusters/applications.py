"""Measured profiles of training applications: step times by placement, gradient statistics by epoch.

A folder has three tables for each application: `step_time_NAME.csv` (placement, as devices of each node written as
digits; samples of a device; seconds of a step and of its synchronisation), `scalability_NAME.csv` (the same by numbers
of nodes and devices; may be absent) and `efficiency_NAME.csv` (a row for each batch size and epoch: progress at its
end in steps of the first batch, iterations, squared norm and variance of the gradient at the first batch).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.goodput import BatchChooser, BatchLimits, fit_step_model, split
from windtunnel.errors import UNSET, BadInput, Problem
from windtunnel.files import reading

MOST_PROBLEMS = 20
STEP = ("placement", "local_bsz", "step_time", "sync_time")
SCALE = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
STATISTICS = ("batch_size", "progress", "grad_sqr", "grad_var")
_NO_SIGNAL = 1e-12
"""Least squared norm of a gradient over its variance: where none was measured, all samples count."""
OWN_LIMITS: Mapping[str, Mapping[str, Any]] = {
    "ncf": {"fixed": 32768.0, "most_devices": 1},
    "yolov3": {"most_local": 8.0},
}
"""What the public simulator of Pollux states without tables (petuum/adaptdl, branch osdi21-artifact, Apache-2.0)."""


@dataclass(slots=True, kw_only=True)
class Application:
    """A kind of training job."""

    name: str
    limits: BatchLimits
    ends: Floats
    """Progress at the end of each epoch, in steps of the first batch."""
    batches: Floats
    """Batch sizes with statistics, rising."""
    squared: Floats
    """Batch × epoch: squared norm of the gradient."""
    variance: Floats
    """Batch × epoch: its variance at the first batch."""
    placed: Mapping[str, tuple[Floats, Floats]]
    """Placement → samples of a device (rising), and step and synchronisation seconds (two columns)."""
    points: Floats
    """Measurement × (nodes, devices, samples of a device, step, synchronisation seconds)."""
    chooser: BatchChooser
    steps: dict[tuple[tuple[int, ...], int], tuple[float, float]] = field(default_factory=dict)
    between: Any = None

    def noise(self, batch: float, epoch: int) -> float:
        """Gradient noise scale φ in samples, measured at a batch during an epoch."""
        squared = np.interp(batch, self.batches, self.squared[:, epoch])
        variance = np.interp(batch, self.batches, self.variance[:, epoch])
        return float(self.limits.first * variance / max(squared, variance * _NO_SIGNAL, 1e-300))

    def step_s(self, placement: tuple[int, ...], local: int) -> tuple[float, float]:
        """Seconds of a step and of its synchronisation, between measurements where there is none.

        Args:
            placement: devices of each node that the job is on.
            local: samples of a device.
        """
        rotations = [placement[i:] + placement[:i] for i in range(len(placement))]
        at = min(rotations), local
        if at not in self.steps:
            self.steps[at] = self._looked_up(*at)
        return self.steps[at]

    def _looked_up(self, placement: tuple[int, ...], local: int) -> tuple[float, float]:
        found = self.placed.get("".join(map(str, placement)))
        if found is not None:
            sizes, seconds = found
            return float(np.interp(local, sizes, seconds[:, 0])), float(np.interp(local, sizes, seconds[:, 1]))
        nodes, devices = len(placement), sum(placement)
        step, sync = self._between()(nodes, devices, local)
        if np.isfinite(step) and np.isfinite(sync):
            return float(step), float(sync)
        model, one = self.chooser.model, np.ones(1)
        layout = np.array([nodes]), np.array([devices])
        whole = float(model.step_s(layout, one * local, one)[0])
        return whole, whole - float(model.gradient_s(one * local)[0])

    def _between(self) -> Any:
        """Linear between measured numbers of nodes, devices and samples."""
        if self.between is None:
            from scipy.interpolate import LinearNDInterpolator

            own = LinearNDInterpolator(self.points[:, :3], self.points[:, 3:])
            most = self.points[:, 0].max()
            self.between = lambda nodes, devices, local: own([min(nodes, most), devices, local])[0]
        return self.between

    def seconds(self, placement: tuple[int, ...], batch: float) -> float:
        """From start to end on a placement, with one batch for all epochs."""
        devices = np.array([sum(placement)])
        local, passes = (float(one[0]) for one in split(np.array([batch]), devices, self.limits))
        pace = np.array([self.rate(placement, int(local), int(passes), e) for e in range(len(self.ends))])
        return float((np.diff(self.ends, prepend=0.0) / pace).sum())

    def rate(self, placement: tuple[int, ...], local: int, passes: int, epoch: int) -> float:
        """Measured steps of the first batch a second."""
        step, sync = self.step_s(placement, local)
        batch, first = local * passes * sum(placement), self.limits.first
        noise = self.noise(batch, epoch)
        return batch / first * (noise + first) / (noise + batch) / (step + (passes - 1) * (step - sync))


def read_applications(folder: Path) -> dict[str, Application]:
    """All applications of a folder.

    Raises:
        BadInput: no application, a missing table or column, or damaged lines, each with its number.
    """
    folder = reading.folder_in_scope(folder, "jobs.applications")
    names = sorted(path.stem.removeprefix("step_time_") for path in folder.glob("step_time_*.csv"))
    if not names:
        rule = "has no profiles (step_time_NAME.csv, efficiency_NAME.csv)"
        raise BadInput(Problem("jobs.applications", rule, str(folder)))
    problems: list[Problem] = []
    tables = {}
    for name in names:
        steps = _table(folder / f"step_time_{name}.csv", STEP, problems)
        scale_file = folder / f"scalability_{name}.csv"
        scale = _table(scale_file, SCALE, problems) if reading.is_file(scale_file) else np.zeros((0, len(SCALE)))
        statistics = _table(folder / f"efficiency_{name}.csv", STATISTICS, problems)
        tables[name] = steps, scale, statistics
    if not problems:
        for name, (_, _, statistics) in tables.items():
            _check_epochs(folder / f"efficiency_{name}.csv", statistics, problems)
    if problems:
        more = [Problem("", f"and {len(problems) - MOST_PROBLEMS:,} more", UNSET)] * (len(problems) > MOST_PROBLEMS)
        raise BadInput([*problems[:MOST_PROBLEMS], *more])
    return {name: _application(name, *own) for name, own in tables.items()}


def _table(file: Path, columns: tuple[str, ...], problems: list[Problem]) -> Floats:
    """Columns of a table as positive numbers; what is wrong is noted."""
    try:
        with reading.open_text(file, "jobs.applications", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except BadInput as error:
        problems += error.problems
        return np.zeros((0, len(columns)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        problems.append(Problem("jobs.applications", f"cannot be read: {error}", str(file)))
        return np.zeros((0, len(columns)))
    missing = [name for name in columns if not rows or name not in rows[0]]
    if missing:
        problems.append(Problem("", f"has no column {', '.join(missing)}", UNSET, file=str(file), line=1))
        return np.zeros((0, len(columns)))
    out = np.ones((len(rows), len(columns)))
    if "sync_time" in columns:
        out[:, -1] = 0.0  # until it is read
    for i, row in enumerate(rows):
        for j, name in enumerate(columns):
            try:
                value = float(row[name])
            except (TypeError, ValueError):
                value = np.nan
            low = 0.0 if name.startswith("grad_") or name == "sync_time" else 1e-9
            if not low <= value < 1e25 or (name == "placement" and (value != int(value) or "0" in row[name])):
                rule = (
                    "must be digits, devices of each node" if name == "placement" else f"must be a number from {low:g}"
                )
                problems.append(Problem(name, rule, row[name], file=str(file), line=i + 2))
            else:
                out[i, j] = value
        if "sync_time" in columns and out[i, -1] >= out[i, -2]:
            rule = f"must be less than step_time ({row['step_time']})"
            problems.append(Problem("sync_time", rule, row["sync_time"], file=str(file), line=i + 2))
    return out


def _check_epochs(file: Path, statistics: Floats, problems: list[Problem]) -> None:
    """Every batch size must have as many epochs, and progress must rise."""
    epochs = {len(rows): batch for batch, rows in _by_batch(statistics).items()}
    if len(epochs) != 1:
        problems.append(Problem("batch_size", "must have as many rows for each batch size", UNSET, file=str(file)))
    elif any((np.diff(rows[:, 1]) <= 0).any() for rows in _by_batch(statistics).values()):
        problems.append(Problem("progress", "must rise from epoch to epoch", UNSET, file=str(file)))


def _by_batch(statistics: Floats) -> dict[float, Floats]:
    return {float(b): statistics[statistics[:, 0] == b] for b in np.unique(statistics[:, 0])}


def _application(name: str, steps: Floats, scale: Floats, statistics: Floats) -> Application:
    by_batch = _by_batch(statistics)
    batches = np.array(list(by_batch))
    own = {"least_local": steps[:, 1].min(), "most_local": steps[:, 1].max(), **OWN_LIMITS.get(name, {})}
    limits = BatchLimits(first=batches[0], most=batches[-1], **own)
    digits = [str(int(place)) for place in steps[:, 0]]
    layouts = np.array([(len(text), sum(map(int, text))) for text in digits], np.float64)
    points = np.concatenate([_means(np.column_stack([layouts, steps[:, 1:]])), scale])
    placed = {}
    for text in dict.fromkeys(digits):
        rows = steps[[one == text for one in digits]]
        rows = rows[np.argsort(rows[:, 1])]
        placed[text] = rows[:, 1], rows[:, 2:]
    layout: tuple[Ints, Ints] = points[:, 0].astype(np.int64), points[:, 1].astype(np.int64)
    model = fit_step_model(*layout, points[:, 2], points[:, 3], points[:, 4])
    return Application(
        name=name,
        limits=limits,
        ends=np.min([rows[:, 1] for rows in by_batch.values()], axis=0),
        batches=batches,
        squared=np.array([rows[:, 2] for rows in by_batch.values()]),
        variance=np.array([rows[:, 3] for rows in by_batch.values()]),
        placed=placed,
        points=points,
        chooser=BatchChooser(model, limits),
    )


def _means(rows: Floats) -> Floats:
    """Mean seconds of rows with the same nodes, devices and samples."""
    keys, place = np.unique(rows[:, :3], axis=0, return_inverse=True)
    counts = np.bincount(place.ravel())
    means = [np.bincount(place.ravel(), rows[:, 3 + i]) / counts for i in range(2)]
    return np.column_stack([keys, *means])
