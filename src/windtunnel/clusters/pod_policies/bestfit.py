"""Best fit: the node with the smallest weighted sum of CPU and GPU left next to the pod."""

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.clusters.pod_policies.base import (
    POD_POLICIES,
    Ask,
    PodPolicy,
    Rooms,
    Scorer,
    Typical,
    in_hundred,
    tightest_gpu,
)


def _scorer(typical: Typical, rng: np.random.Generator) -> Scorer:
    def score(room: Rooms, ask: Ask, nodes: Ints) -> tuple[Ints, Ints]:
        cpu = (room.cpu[nodes] - ask.cpu) / room.most_cpu
        gpu = (room.gpu_left[nodes] - ask.gpu) / room.most_gpu
        return in_hundred(1.0 - 0.5 * cpu - 0.5 * gpu), tightest_gpu(room, ask, nodes)

    return score


POD_POLICIES.add(
    "bestfit",
    PodPolicy(name="Best fit", source="Protean, Hadary et al., OSDI 2020", scorer=_scorer),
    aliases=("best-fit", "best_fit"),
)
