"""One curve: what is learned by an algorithm from a seed, its key, and the folder that keeps learned curves."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.drivers.lock_step import Curve, learn
from windtunnel.learning.inner import INNER
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.job import Job
from windtunnel.learning.tasks import TASKS
from windtunnel.learning.tasks.base import Shapes, Task, TaskSetting

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
    folder: str = ""
    """Where a user's own task is found; empty for ours."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What else it depends on: seconds and failures, where the clock decides the order of events."""

    def digest(self) -> str:
        """Hexadecimal digits that stand for the key, the sources of `learning` and the version of NumPy."""
        text = json.dumps([asdict(self), source_digest(), np.__version__, _ENGINE], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Learned:
    """A curve, and how long the machine took for it."""

    curve: Curve
    seconds: float
    """Of this machine, without looking the curve up; 0: it was kept from before."""
    worker_steps: int


def task_of(key: CurveKey) -> Task:
    """The task with its data."""
    setting = TaskSetting(key.workers, key.batch, key.seed, key.split, key.split_value)
    return TASKS.get(key.task).build(setting, dict(key.task_knobs))


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
        algorithm = ALGORITHMS.get(key.algorithm).build(job, dict(key.algorithm_knobs))
        curve = learn(algorithm, task, job, key.evaluate_every)
    return Learned(curve, time.perf_counter() - begun, len(curve.train_loss) * key.workers)


@contextlib.contextmanager
def one_thread() -> Any:
    """Products of matrices on one thread in this block: threads gain little here and change the last bits."""
    setters = _thread_counts()
    before = [get() for get, _ in setters]
    for _, put in setters:
        put(1)
    try:
        yield
    finally:
        for (_, put), count in zip(setters, before, strict=True):
            put(count)


@cache
def _thread_counts() -> tuple[tuple[Any, Any], ...]:
    """(reader, setter) of the thread count of each OpenBLAS that NumPy brought along; empty where it has another."""
    import ctypes

    found = []
    folders = (Path(np.__file__).parent.parent / "numpy.libs", Path(np.__file__).parent / ".dylibs")
    for path in sorted(p for folder in folders if folder.is_dir() for p in folder.iterdir() if "openblas" in p.name):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(str(path))
            for prefix, suffix in (("scipy_openblas", "64_"), ("openblas", "64_"), ("openblas", "")):
                get = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
                put = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
                if get is not None and put is not None:
                    found.append((get, put))
                    break
    return tuple(found)


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
    base = Path(told) if told else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windtunnel"
    return base / "curves"


def kept(key: CurveKey) -> Learned | None:
    """The curve as it was learned before; None where it was not, or where the file cannot be read."""
    path = curves_directory() / f"{key.digest()}.npz"
    try:
        with np.load(path, allow_pickle=False) as data:
            diverged = int(data["diverged_at"])
            curve = Curve(
                data["steps"], data["loss"], data["metric"], data["train_loss"], None if diverged < 0 else diverged
            )
            return Learned(curve, 0.0, int(data["worker_steps"]))
    except (OSError, ValueError, KeyError, EOFError):
        return None
    except Exception as error:  # a damaged zip file
        if type(error).__name__ == "BadZipFile":
            return None
        raise


def keep(key: CurveKey, learned: Learned) -> None:
    """Write a learned curve where `kept` finds it; what cannot be written is not kept."""
    curve = learned.curve
    with contextlib.suppress(OSError):
        folder = curves_directory()
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            np.savez(
                file,
                steps=curve.steps,
                loss=curve.loss,
                metric=curve.metric,
                train_loss=curve.train_loss.astype(np.float32),
                diverged_at=-1 if curve.diverged_at is None else curve.diverged_at,
                worker_steps=learned.worker_steps,
            )
        Path(name).replace(folder / f"{key.digest()}.npz")
