"""Random jobs of classes that the user writes down."""

from __future__ import annotations

import math

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.clusters.jobs import Jobs
from windtunnel.machine_memory import require_bytes
from windtunnel.specs.jobs import GenerateSpec, JobClassSpec

_BYTES_A_JOB = 1000.0
"""Columns, names and segments of a job."""


def generate_mix(spec: GenerateSpec, seed: int) -> Jobs:
    """Jobs of a Poisson process, each of a class by the classes' shares; lengths are log-normal.

    Gaps, classes and lengths come each from a stream of their own, one number a job, so that job j is the same whatever
    `count` is: more jobs follow those of a smaller count.

    Args:
        spec: how many, how often, of which classes.
        seed: of the draws.
    """
    classes = spec.classes
    gaps, kinds, lengths = (np.random.default_rng([seed, 5, stream]) for stream in range(3))
    n = spec.count
    require_bytes(_BYTES_A_JOB * n, "jobs.generate.count", f"{n:,} jobs", n)
    submit = np.cumsum(gaps.exponential(3600.0 / spec.rate_per_hour, n))
    shares = np.array([one.share for one in classes])
    which = kinds.choice(len(classes), n, p=shares / shares.sum())
    noise = lengths.standard_normal(n)
    length = np.array([_length(classes[k], z) for k, z in zip(which, noise, strict=True)])
    stepped = np.array([one.steps is not None for one in classes])[which]
    devices = np.array([one.devices for one in classes], np.int64)[which]
    priority: Floats = np.array([float(one.priority) for one in classes])[which]
    names = [one.name or f"class {i + 1}" for i, one in enumerate(classes)]
    return Jobs(
        submit_s=submit,
        devices=devices,
        work_s=np.where(stepped, np.nan, length),
        names=tuple(str(j) for j in range(n)),
        kinds=tuple(names[k] for k in which),
        priority=priority,
        scenarios=tuple(classes[k].scenario or "" for k in which),
        steps=np.where(stepped, length, np.nan),
    )


def _length(one: JobClassSpec, normal: float) -> float:
    """Seconds or steps: log-normal with the class's mean and coefficient of variation."""
    mean = one.duration if one.duration is not None else one.steps or 0.0
    sigma = math.sqrt(math.log1p(one.cv**2))
    return mean * math.exp(sigma * normal - sigma**2 / 2)
