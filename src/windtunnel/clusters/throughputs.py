"""Tables of how fast job types run on kinds of devices, and random jobs of those types."""

from __future__ import annotations

import csv
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.jobs import Jobs
from windtunnel.errors import UNSET, BadInput, Problem, nearest_name
from windtunnel.files import reading
from windtunnel.specs.jobs import GenerateSpec

COLUMNS = ("worker_type", "job_type", "gpus", "steps_per_s")
SPREAD = "_unconsolidated"
"""Ending of kinds whose devices are spread over nodes."""
BATCH_SIZE = re.compile(r"\(batch size (?P<batch>\d+)\)$")
SIZES = (1, 2, 4, 8)
_SIZE_EDGES = (0.70, 0.80, 0.95)
"""Devices of a job of `gavel-multi`: 70, 10, 15 and 5 %, as measured in Philly."""
SHORT_SHARE, SHORT, LONG = 0.8, (1.5, 3.0), (3.0, 4.0)
"""Minutes of a job: 10 to a uniform power, of one range or the other (Narayanan et al., OSDI 2020, section 7)."""
ELASTIC_SIZES, _ELASTIC_EDGES = (1, 2, 4, 8, 16), (0.83, 0.86, 0.89, 0.99)
"""Devices of a job of `elasticflow`: 83, 3, 3, 10 and 1 % (its trace generator, Apache-2.0)."""
ELASTIC_SHORT, ELASTIC_LONG = (1.0, 2.5), (2.5, 4.0)


@dataclass(frozen=True, slots=True)
class Throughputs:
    """Steps a second by kind of device, job type and number of devices."""

    file: str
    steps_per_s: dict[tuple[str, str, int], float]

    @property
    def workers(self) -> tuple[str, ...]:
        """Kinds, as they are written, without those of spread devices."""
        return tuple(dict.fromkeys(kind for kind, _, _ in self.steps_per_s if not kind.endswith(SPREAD)))

    def types(self, size: int, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Job types that run with that many devices on the first of some kinds, in the order of the file."""
        first = kinds[0]
        found = {t for (k, t, s), rate in self.steps_per_s.items() if (k, s) == (first, size) and rate > 0}
        named = (t for k, t, s in self.steps_per_s if k == first and t in found)
        return tuple(dict.fromkeys(named))


def read_throughputs(path: Path) -> Throughputs:
    """Read a table.

    Raises:
        BadInput: the file, a missing column, or damaged lines.
    """
    try:
        with reading.open_text(path, "jobs.throughputs", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(Problem("jobs.throughputs", f"cannot be read: {error}", str(path))) from None
    missing = [name for name in COLUMNS if not rows or name not in rows[0]]
    if missing:
        raise BadInput(Problem("jobs.throughputs", f"has no column {', '.join(missing)}", str(path)))
    table, problems = {}, []
    for line, row in enumerate(rows, 2):
        try:
            rate, size = float(row["steps_per_s"]), int(row["gpus"])
            if not 0 <= rate < 1e15 or size < 1:
                raise ValueError
            table[row["worker_type"].strip(), row["job_type"].strip(), size] = rate
        except (TypeError, ValueError, AttributeError):
            rule = "steps_per_s must be a number and gpus a whole number"
            problems.append(Problem("", rule, UNSET, file=str(path), line=line))
    if problems:
        raise BadInput(problems[:20])
    return Throughputs(str(path), table)


def kinds_of(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Kinds of devices in the order in which the cluster lists them."""
    return tuple(dict.fromkeys(labels))


def check_kinds(table: Throughputs, kinds: tuple[str, ...]) -> None:
    """Refuse kinds of the cluster that the table does not have.

    Raises:
        BadInput: names the nearest kind.
    """
    known = table.workers
    wrong = [kind for kind in kinds if kind not in known]
    if wrong:
        rule = f"is not a worker_type of {table.file}: {', '.join(known)}"
        raise BadInput([Problem("cluster.device", rule, kind, nearest=nearest_name(kind, known)) for kind in wrong])


def speeds(jobs: Jobs, table: Throughputs, kinds: tuple[str, ...], reference: str) -> Floats:
    """Job × kind: how fast each job runs there, over how fast on the kind that its work is stated for.

    Raises:
        BadInput: a job whose type the table does not have for its number of devices.
    """
    out = np.zeros((len(jobs), len(kinds)))
    problems = []
    for j, (kind_of_job, size) in enumerate(zip(jobs.kinds, jobs.devices.tolist(), strict=True)):
        own = table.steps_per_s.get((reference, kind_of_job, size), 0.0)
        if own <= 0:
            line = None if jobs.lines is None else int(jobs.lines[j])
            rule = f"{table.file} has no steps_per_s of it with {size} devices on {reference}"
            problems.append(Problem("job_type", rule, kind_of_job, file=jobs.file, line=line))
            continue
        out[j] = [table.steps_per_s.get((kind, kind_of_job, size), 0.0) / own for kind in kinds]
    if problems:
        raise BadInput(problems[:20])
    return out


def generate(spec: GenerateSpec, table: Throughputs, reference: str, seed: int) -> Jobs:
    """Jobs of a Poisson process, of types and durations at random; durations are those on one kind of device.

    Raises:
        BadInput: an unknown mix.
    """
    if spec.mix not in _MIXES:
        near = nearest_name(spec.mix, _MIXES)
        raise BadInput(Problem("jobs.generate.mix", f"no such mix; known: {', '.join(_MIXES)}", spec.mix, nearest=near))
    mix = _MIXES[spec.mix]
    known = {size: table.types(size, (reference,)) for size in mix.sizes}
    for size, types in known.items():
        if not types:
            rule = f"has no job types with {size} devices on {reference}"
            raise BadInput(Problem("jobs.throughputs", rule, table.file))
    submit, devices, minutes, kinds = mix.draw(spec, known, seed)
    jobs = Jobs(
        submit_s=submit,
        devices=devices,
        work_s=60.0 * minutes,
        names=tuple(str(j) for j in range(spec.count)),
        kinds=kinds,
        deadline_s=_deadlines(spec, submit, 60.0 * minutes, seed),
    )
    why = "durations are stated for the first kind of the cluster"
    return replace(jobs, notes=(("jobs.generate", f"durations on {reference}", why),))


Known = dict[int, tuple[str, ...]]
Drawn = tuple[Floats, Ints, Floats, tuple[str, ...]]


def _draw_gavel(spec: GenerateSpec, known: Known, seed: int) -> Drawn:
    """Moments, devices, minutes and types, drawn one job after the other as by Gavel's generator with that seed.

    Jobs come from one stream of Python's generator (devices, length, type; the type anew until it runs on so many
    devices), gaps between arrivals from another, so that a published run and one here have the same jobs. The first
    job arrives at 0.
    """
    of_jobs, of_gaps = random.Random(seed + 2), random.Random(seed + 3)
    devices, minutes, kinds = np.ones(spec.count, np.int64), np.zeros(spec.count), []
    for j in range(spec.count):
        size = int(SIZES[int(np.searchsorted(_SIZE_EDGES, of_jobs.random(), side="right"))])
        devices[j] = size if size in known else 1
        minutes[j] = 10 ** of_jobs.uniform(*(LONG if of_jobs.random() >= SHORT_SHARE else SHORT))
        kind = of_jobs.choice(known[1])
        while kind not in known[int(devices[j])]:
            kind = of_jobs.choice(known[1])
        kinds.append(kind)
    return _arrivals(of_gaps, spec), devices, minutes, tuple(kinds)


def _draw_elasticflow(spec: GenerateSpec, known: Known, seed: int) -> Drawn:
    """As by ElasticFlow's generator with that seed: types, gaps, lengths and devices each from a stream."""
    of_kinds, of_gaps, of_minutes, of_sizes = (random.Random(seed + n) for n in range(4))
    devices, minutes, kinds = np.ones(spec.count, np.int64), np.zeros(spec.count), []
    for j in range(spec.count):
        edge = int(np.searchsorted(_ELASTIC_EDGES, of_sizes.random(), side="right"))
        devices[j] = ELASTIC_SIZES[edge]
        kinds.append(of_kinds.choice(known[1]))
        minutes[j] = 10 ** of_minutes.uniform(*(ELASTIC_LONG if of_minutes.random() >= SHORT_SHARE else ELASTIC_SHORT))
    return np.floor(_arrivals(of_gaps, spec)), devices, minutes, tuple(kinds)


def _arrivals(gaps: random.Random, spec: GenerateSpec) -> Floats:
    """Moments of a Poisson process, the first at 0."""
    mean = 3600.0 / spec.rate_per_hour
    between = [-math.log(1.0 - gaps.random()) * mean for _ in range(spec.count - 1)]
    return np.concatenate([[0.0], np.cumsum(between)])


def _deadlines(spec: GenerateSpec, submit: Floats, work: Floats, seed: int) -> Floats | None:
    """So many times the duration after submission."""
    bounds = (0.5, 1.5) if spec.deadline is None and spec.mix == "elasticflow" else spec.deadline
    if bounds is None:
        return None
    share = np.random.default_rng([seed, 5]).uniform(*bounds, spec.count)
    return submit + np.floor(share * work)


@dataclass(frozen=True, slots=True)
class _Mix:
    sizes: tuple[int, ...]
    draw: Callable[[GenerateSpec, Known, int], Drawn]


_MIXES = {
    "gavel-single": _Mix(SIZES[:1], _draw_gavel),
    "gavel-multi": _Mix(SIZES, _draw_gavel),
    "elasticflow": _Mix(ELASTIC_SIZES, _draw_elasticflow),
}


def reference_rates(jobs: Jobs, table: Throughputs, reference: str) -> Floats:
    """Steps a second of each job on the kind that its work is stated for."""
    sizes = jobs.devices.tolist()
    return np.array([table.steps_per_s[reference, kind, size] for kind, size in zip(jobs.kinds, sizes, strict=True)])
