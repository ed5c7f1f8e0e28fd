"""FedProx: FedAvg whose clients are held to the server's parameters by a quadratic term.

Source: Li et al. 2020, Federated optimization in heterogeneous networks, algorithm 2.
"""

from __future__ import annotations

from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms._federated import Federated
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.fedavg import KNOBS, federated
from windtunnel.learning.job import Job
from windtunnel.techniques.knobs import Knob


def build(job: Job, knobs: dict[str, Any]) -> Federated:
    """Gradients of loss + ρ/2·|x − a|²."""
    return federated("fedprox", job, knobs, proximal=knobs["proximal"])


ALGORITHMS.add(
    "fedprox",
    AlgorithmKind(
        id="fedprox",
        summary="FedAvg with a term that holds clients to the server's parameters",
        build=build,
        knobs={**KNOBS, "proximal": Knob(0.1, 0.0, 1e6, "ρ: weight of ½|x − a|² in a client's loss")},
        family="fl-edge",
        source="Li et al. 2020 (arXiv 1812.06127), algorithm 2",
    ),
)
