"""One curve: what is learned by an algorithm from a seed, its key, and the folder that keeps learned curves."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import struct
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile

import numpy as np

from windtunnel.errors import BadInput
from windtunnel.files import reading
from windtunnel.files.user_folders import cache_folder
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.arrival_clock import arrival_setting
from windtunnel.learning.attacks import Attack, attacked
from windtunnel.learning.drivers.arrival_results import ArrivalCurve
from windtunnel.learning.drivers.arrivals import run_arrivals
from windtunnel.learning.drivers.elastic_members import ElasticMembers
from windtunnel.learning.drivers.lock_step import Curve, learn
from windtunnel.learning.inner import INNER
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.job import Job
from windtunnel.learning.tasks import TASKS
from windtunnel.learning.tasks.base import Shapes, Task, TaskSetting
from windtunnel.one_thread import one_thread

_MOST_BYTES = 1 << 28
_ENGINE = 1
"""Raised where curves of the same sources would differ all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveKey:
    """Everything that a curve depends on, as plain data: equal keys learn equal bits."""

    task: str
    task_knobs: dict[str, Any]
    workers: int
    steps: int
    """Local steps of each worker."""
    batch: int
    algorithm: str
    algorithm_knobs: dict[str, Any]
    inner: str
    inner_knobs: dict[str, Any]
    lr: dict[str, Any]
    """Fields of `LearningRate`."""
    split: str
    split_value: float
    seed: int
    evaluate_every: int
    attack: dict[str, Any] = field(default_factory=dict)
    """Fields of `Attack`; empty: none."""
    clock: dict[str, Any] = field(default_factory=dict)
    """What decides the order of events (`arrival_clock.clock_fields`); of lock-step algorithms who is there in each
    round (`ElasticRounds.members`), empty where all are."""

    def digest(self) -> str:
        """Hexadecimal digits that stand for the key, a file that the task reads, and what computes.

        These are the sources of `learning`, NumPy's version and those of packages that the task names.
        """
        versions = [np.__version__, *(_version(name) for name in TASKS.get(self.task).packages)]
        file = str(self.task_knobs.get("file") or "")
        with contextlib.suppress(BadInput):
            file = hashlib.sha256(reading.read_bytes(file)).hexdigest() if file else ""
        text = json.dumps([asdict(self), file, source_digest(), versions, _ENGINE], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Learned:
    """A curve, and how long the machine took for it."""

    curve: Curve | ArrivalCurve
    seconds: float
    """Of this machine, without looking the curve up; 0: it was kept from before."""
    worker_steps: int


def task_of(key: CurveKey) -> Task:
    """The task with its data, under attack where there is one."""
    return under_attack(honest_task_of(key), key)


def honest_task_of(key: CurveKey) -> Task:
    """The task with its data."""
    setting = TaskSetting(key.workers, key.batch, key.seed, key.split, key.split_value)
    return TASKS.get(key.task).build(setting, dict(key.task_knobs))


def under_attack(task: Task, key: CurveKey) -> Task:
    """A task under the key's attack, the task itself where there is none.

    Raises:
        BadInput: labels of a task that has none are to be flipped.
    """
    return (
        attacked(task, Attack(**key.attack), TaskSetting(key.workers, key.batch, key.seed).draws)
        if key.attack
        else task
    )


def job_of(key: CurveKey, shapes: Shapes) -> Job:
    """The job that an algorithm is built for."""
    return Job(
        workers=key.workers,
        steps=key.steps,
        shapes=shapes,
        inner=INNER.get(key.inner).build(dict(key.inner_knobs)),
        lr=LearningRate(**key.lr),
        draws=TaskSetting(key.workers, key.batch, key.seed).draws,
    )


def learn_curve(key: CurveKey) -> Learned:
    """Train for real, on one thread."""
    with one_thread():
        begun = time.perf_counter()
        task = task_of(key)
        job = job_of(key, task.shapes)
        kind = ALGORITHMS.get(key.algorithm)
        algorithm = kind.build(job, dict(key.algorithm_knobs))
        if kind.driver == "arrivals":
            setting = arrival_setting(key.clock, task, job, key.evaluate_every)
            late = run_arrivals(algorithm, task, job, setting)
            return Learned(late, time.perf_counter() - begun, late.worker_steps)
        if key.clock:
            algorithm = ElasticMembers.of(algorithm, key.clock)
        curve = learn(algorithm, task, job, key.evaluate_every)
    rows = getattr(algorithm, "places", key.workers)  # of clients that are sampled only those of a round compute
    return Learned(curve, time.perf_counter() - begun, len(curve.train_loss) * rows)


def _version(distribution: str) -> str:
    """The version that is installed; empty where none is."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


@cache
def source_digest() -> str:
    """Hexadecimal digits of all sources below `learning`."""
    here = Path(__file__).parent
    found = hashlib.sha256()
    for path in sorted(here.rglob("*.py")):
        found.update(path.relative_to(here).as_posix().encode() + b"\n" + path.read_bytes())
    return found.hexdigest()[:16]


def curves_directory() -> Path:
    """The user's folder of learned curves: below `XDG_CACHE_HOME`, else `~/.cache`; `WINDTUNNEL_CACHE` goes first."""
    told = os.environ.get("WINDTUNNEL_CACHE")
    return (Path(told) if told else cache_folder()) / "curves"


def kept(key: CurveKey) -> Learned | None:
    """The curve as it was learned before; None where it was not, or where its file is damaged, which is set aside.

    The arrays of a file carry checksums, which `numpy` compares.
    """
    try:
        path = curves_directory() / f"{key.digest()}.npz"
        with np.load(io.BytesIO(_bytes_of(path)), allow_pickle=False) as data:
            if any(one.compress_type != ZIP_STORED for one in data.zip.infolist()):
                raise ValueError("it is compressed")
            scalars = json.loads(str(data["scalars"]))
            kind = ArrivalCurve if scalars.pop("driver") == "arrivals" else Curve
            worker_steps = scalars.pop("worker_steps_learned")
            if scalars.pop("key", path.stem) != path.stem:
                raise ValueError("it holds another curve")
            arrays = {name: data[name] for name in data.files if name != "scalars"}
            return Learned(kind(**arrays, **scalars), 0.0, worker_steps)
    except FileNotFoundError:
        return None
    except (
        OSError,
        ValueError,
        LookupError,
        EOFError,
        TypeError,
        BadZipFile,
        struct.error,
        RuntimeError,
        MemoryError,
    ) as error:
        with contextlib.suppress(OSError, NameError):
            path.replace(path.with_suffix(".damaged"))
            sys.stderr.write(f"note: kept curve {path} is damaged ({error}): it is set aside and learned again\n")
        return None


def _bytes_of(path: Path) -> bytes:
    """The content of a kept curve, in a folder that others may write to as well: no link, no pipe, no device."""
    handle = os.open(path, os.O_RDONLY | reading.NO_LINK)
    with os.fdopen(handle, "rb") as stream:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            raise ValueError("it is no file of a curve")
        return stream.read()


def keep(key: CurveKey, learned: Learned) -> None:
    """Write a learned curve where `kept` finds it; what cannot be written is not kept."""
    curve = learned.curve
    values = {f.name: getattr(curve, f.name) for f in fields(curve)}
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    scalars = {name: value for name, value in values.items() if name not in arrays}
    scalars |= {"driver": "arrivals" if isinstance(curve, ArrivalCurve) else "lock-step"}
    scalars |= {"worker_steps_learned": learned.worker_steps, "key": key.digest()}
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: a user without a home
        folder = curves_directory()
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **{"scalars": np.array(json.dumps(scalars)), **arrays})  # type: ignore[arg-type]
            Path(name).replace(folder / f"{key.digest()}.npz")
        finally:
            Path(name).unlink(missing_ok=True)
