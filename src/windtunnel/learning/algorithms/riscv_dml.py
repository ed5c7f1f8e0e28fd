"""Decentralised learning on small devices by scheme: master and workers, peers, or a tree.

All schemes learn the same, a mean of the devices after each round of local steps; they differ in who sends what to
whom, and so in seconds and joules. Device types differ in seconds of a step and watts, which the scenario states.

Source: Mittone et al. 2023, Experimenting with emerging RISC-V systems for decentralised machine learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms._federated import LOCAL_STEPS, Federated
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob

Scheme = Literal["master-worker", "peer-to-peer", "tree"]


@dataclass(slots=True, kw_only=True)
class SchemeRounds(Federated):
    """A mean of all devices that travels as the scheme says."""

    scheme: Scheme

    def messages(self, step: int) -> tuple[Message, ...]:
        """master-worker: up and down. peer-to-peer: all to all. tree: sums up a tree, and the mean down it."""
        up_and_down = Federated.messages(self, step)
        if self.scheme == "master-worker" or not up_and_down or self.job.workers == 1:
            return up_and_down
        kind: Literal["all_gather", "all_reduce"] = "all_gather" if self.scheme == "peer-to-peer" else "all_reduce"
        return (Message(kind=kind, wire=self.upload, after_step=step, needed_by=step + 1),)


def build(job: Job, knobs: dict[str, Any]) -> SchemeRounds:
    """Rounds of the job's inner optimizer on all devices."""
    return SchemeRounds(
        job=job,
        local_steps=knobs["local_steps"],
        outer=Average(),
        inner=job.inner,
        upload=Cast(knobs["bits"]),
        scheme=knobs["scheme"],
    )


ALGORITHMS.add(
    "riscv-dml",
    AlgorithmKind(
        id="riscv-dml",
        summary="a mean of small devices by a master, among peers or along a tree",
        build=build,
        knobs={
            "scheme": Knob(
                "master-worker", choices=("master-worker", "peer-to-peer", "tree"), doc="who sends what to whom"
            ),
            "local_steps": LOCAL_STEPS,
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a value on its way"),
        },
        family="fl-edge",
        source="Mittone et al. 2023, Experimenting with emerging RISC-V systems for decentralised machine learning",
    ),
)
