"""FedASMU: each arrival is mixed with a weight that is learned from the loss, and workers fetch anew midway.

Weight of worker i at server step t, s steps late: ξ = λ_i·t^−½·(1 + s)^−σ_i + ι_i, α = μξ/(1 + μξ). The worker's λ, σ
and ι follow the gradient of its loss: where it fetches next, its first gradient times the way its last upload was mixed
along says whether more of it would have been better.

Midway a worker asks for fresh parameters, goes on with its steps, and merges what comes: x ← (1 − β)x + βa,
β = fresh_share·(1 − (1 + g)^−½), g server steps made since it fetched.

Source: Liu et al. 2024 (arXiv 2312.05770), sections 4.1 and 4.2; constants recalled, not confirmed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, log, sqrt
from typing import Any

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.arrival import Answer, Rules, Server, Upload
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.algorithms.buffered import CONCURRENCY, LOCAL_STEPS, TIMEOUT_S, Buffered, chosen
from windtunnel.learning.algorithms.fedasync import mixed
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True)
class _Weight:
    """What a worker's weight is made of, and its last merge."""

    scale: float = 1.0
    """λ."""
    exponent: float = 0.5
    """σ."""
    floor: float = 0.0
    """ι."""
    way: Reals | None = None
    """From the anchor to what was uploaded at its last merge, shape (params,)."""
    slopes: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """dα/dλ, dα/dσ, dα/dι there."""


@dataclass(slots=True, kw_only=True)
class FedASMU(Buffered):
    """See the module."""

    mix: float
    """μ."""
    weight_lr: float
    fresh_share: float
    weights: dict[int, _Weight] = field(default_factory=dict)

    def start(self, initial: Reals) -> Server:
        """See `ArrivalAlgorithm.start`."""
        self.weights.clear()
        return Buffered.start(self, initial)

    def arrived(self, server: Server, upload: Upload) -> Answer:
        """Learn from the first gradient of this round, then mix."""
        own = self.weights.setdefault(upload.worker, _Weight())
        if own.way is not None and upload.first_gradient is not None:
            slope = float(np.dot(upload.first_gradient.astype(float), own.way.astype(float)))
            by = [self.weight_lr * slope * d for d in own.slopes]
            own.scale = max(0.0, own.scale - by[0])
            own.exponent = max(0.0, own.exponent - by[1])
            own.floor = max(0.0, own.floor - by[2])
        late = 1.0 + upload.staleness
        age = 1.0 / sqrt(server.version + 1.0)
        xi = own.scale * age * late**-own.exponent + own.floor
        alpha = self.mix * xi / (1.0 + self.mix * xi)
        by_xi = self.mix / (1.0 + self.mix * xi) ** 2
        decayed = age * late**-own.exponent
        own.slopes = (by_xi * decayed, -by_xi * own.scale * decayed * log(late), by_xi)
        own.way = mixed(server, upload, alpha)
        return Answer(release=(upload.worker,))

    def midway(self, server: Server, worker: int, params: Reals, version: int) -> Reals:
        """Merge fresh parameters, the more the more server steps were made."""
        beta = self.fresh_share * (1.0 - (1.0 + server.version - version) ** -0.5)
        return np.asarray(params + (server.anchor[0] - params) * params.dtype.type(beta))


def build(job: Job, knobs: dict[str, Any]) -> FedASMU:
    """See the module."""
    del job
    return FedASMU(
        rules=Rules(
            who=chosen(knobs["concurrency"]),
            timeout_s=knobs["timeout_s"] or inf,
            first_gradients=True,
            midway=knobs["fetch_at"] or None,
        ),
        local_steps=knobs["local_steps"],
        buffer=1,
        outer=Average(),
        weight=lambda _upload: 1.0,
        mix=knobs["mix"],
        weight_lr=knobs["weight_lr"],
        fresh_share=knobs["fresh_share"],
    )


ALGORITHMS.add(
    "fedasmu",
    AlgorithmKind(
        id="fedasmu",
        summary="arrivals are mixed with weights learned from the loss; workers fetch anew midway",
        driver="arrivals",
        build=build,
        knobs={
            "local_steps": LOCAL_STEPS,
            "mix": Knob(1.0, 0.0, 1000.0, "μ: scale of the weights"),
            "weight_lr": Knob(1e-3, 0.0, 1e6, "learning rate of the weights' constants"),
            "fetch_at": Knob(
                0.5, 0.0, 1.0, "share of a round after which a worker asks for fresh parameters; 0: never"
            ),
            "fresh_share": Knob(1.0, 0.0, 1.0, "β where very many server steps were made"),
            "concurrency": CONCURRENCY,
            "timeout_s": TIMEOUT_S,
        },
        family="fl-edge",
        source="Liu et al. 2024 (arXiv 2312.05770), sections 4.1 and 4.2",
        deviates="when to fetch anew is a knob, and β is not learned; the paper learns both",
    ),
)
