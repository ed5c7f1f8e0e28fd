"""Cases that tests of queues, routers, admission and fleets share: tenants, prefixes, too much load."""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.serving.limits import Limits
from windtunnel.serving.queues import Context
from windtunnel.serving.requests import Requests
from windtunnel.serving.traffic import generate
from windtunnel.specs.traffic import TrafficSpec

LINEAR = 0.01 + np.arange(20_000) * 2e-5
LIMITS = Limits(budget=512, max_seqs=8, block=16, blocks=160, kv=1e-7, caching=True, every=1)


def drawn(seed: int, many: int = 3, **more: Any) -> Requests:
    """Tenants with prefixes of their own, too many requests at once."""
    given = {
        "rate_per_s": 12.0,
        "num_requests": 90,
        "seed": seed,
        "input_tokens": {"distribution": "lognormal", "mean": 150, "cv": 1.0, "min": 70, "max": 600},
        "output_tokens": {"distribution": "gamma", "mean": 30, "cv": 0.8, "max": 120},
        "tenants": [{"name": str(i), "shared_prefix_tokens": 48, "prefixes": 2, "priority": i} for i in range(many)],
    } | more
    return generate(TrafficSpec.model_validate(given)).requests


def context(tenants: int, *, ttft_s: float = float("inf"), weights: tuple[float, ...] = (), **knobs: Any) -> Context:
    return Context(
        weights=weights or (1.0,) * tenants, ttft_s=(ttft_s,) * tenants, tpot_s=(float("inf"),) * tenants, options=knobs
    )
