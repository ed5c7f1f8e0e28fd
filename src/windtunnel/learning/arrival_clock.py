"""The clock of arrival-driven algorithms from plain data, so that a curve's key holds all that its order depends on."""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.learning.drivers.arrivals import ArrivalSetting
from windtunnel.learning.drivers.outages import Outages
from windtunnel.learning.drivers.pace import DrawnPace, lognormal_factors
from windtunnel.learning.drivers.transfers import IndependentLinks, Transfers
from windtunnel.learning.job import Job
from windtunnel.learning.tasks.base import Task
from windtunnel.learning.timing.contended_links import ContendedLinks
from windtunnel.learning.timing.links import link_of
from windtunnel.specs.learning import LearningSpec, WorkerLinkSpec
from windtunnel.specs.run import FailureProfile


def clock_fields(
    spec: LearningSpec, shapes: Any, step_s: float, failures: FailureProfile | None, nodes: tuple[int, int]
) -> dict[str, Any]:
    """Everything that decides when uploads arrive, as plain data.

    Args:
        spec: Link and speeds.
        shapes: Tensors of the target.
        step_s: Seconds of one local step of the typical worker.
        failures: Of workers; None: none.
        nodes: Of one worker, and devices of a node.
    """
    return {
        "step_s": step_s,
        "shapes": [list(shape) for shape in shapes],
        "link": None if spec.link is None else spec.link.model_dump(mode="json"),
        "speeds": None if spec.speeds is None else spec.speeds.model_dump(mode="json"),
        "joins": list(spec.joins),
        "failures": None if failures is None else failures.model_dump(mode="json"),
        "nodes": list(nodes),
        "target_loss": None,
    }


def arrival_setting(clock: dict[str, Any], task: Task, job: Job, evaluate_every: int) -> ArrivalSetting:
    """What the driver needs, from `clock_fields`."""
    speeds = clock["speeds"] or {}
    stated = speeds.get("factors") or (1.0,)
    factors = np.array([stated[i % len(stated)] for i in range(job.workers)], np.float64)
    shards = getattr(task, "shards", None)
    samples = None if shards is None else np.asarray(shards.sizes, np.float64)
    if speeds.get("lognormal"):
        by_data = samples if speeds.get("with_data") else None
        factors = factors * lognormal_factors(job.workers, speeds["lognormal"], job.draws, by_data)
    pace = DrawnPace(
        step_s=clock["step_s"],
        factors=factors,
        draws=job.draws,
        jitter=speeds.get("jitter", 0.0),
        exponential=speeds.get("exponential", False),
    )
    outages = None
    if clock["failures"] is not None or any(clock["joins"]):
        profile = None if clock["failures"] is None else FailureProfile.model_validate(clock["failures"])
        joins = np.zeros(job.workers)
        joins[: len(clock["joins"])] = clock["joins"][: job.workers]
        nodes, devices = clock["nodes"]
        outages = Outages(profile, job.draws, nodes, devices, joins)
    return ArrivalSetting(
        pace=pace,
        transfers=_links(clock["link"]),
        shapes=tuple(tuple(shape) for shape in clock["shapes"]),
        outages=outages,
        samples=samples,
        evaluate_every=evaluate_every,
    )


def _links(link: dict[str, Any] | None) -> Transfers:
    """Links of workers to their server: flows that share what their links meet in."""
    if link is None:
        return IndependentLinks()
    return ContendedLinks(link_of(WorkerLinkSpec.model_validate(link)))
