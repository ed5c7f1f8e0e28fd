"""One server drawn from those that nobody measured: by how much its first tokens, steps and rates are off.

What a draw shares between runs decides how far their ratio is off. Runs of one model on one device share what the
prediction gets wrong about both, the medians of a measured group, and with all runs of one release on one device what a
site is off by; each run has a measured case's distance from its group of its own. Ratios of such runs then spread as
pairs of measured rows of one group do (`residual_bands.paired_band`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from windtunnel.cost.serving import release_of
from windtunnel.serving.deployment import Deployment
from windtunnel.serving.results.build_result import Drawn
from windtunnel.serving.results.joint_draws import MEASURES, Draws, RunShape
from windtunnel.serving.results.measured_residuals import Place, Site
from windtunnel.serving.results.run_intervals import draws_at, form_of, places_of

Number = Callable[[str], float]
"""A random number of a name, always the same."""


def drawn_server(d: Deployment, case: str, uniform: Number, normal: Number) -> Drawn:
    """A server that runs a deployment, drawn by named random numbers, as `drawn_result` takes it.

    Args:
        d: What serves.
        case: Name of the run: another one is another case of its group.
        uniform: Numbers from 0 to 1.
        normal: Standard normal numbers.
    """
    devices = " and ".join(dict.fromkeys(pool.cluster.device.id for pool in d.pools))
    group = f"group {d.model.name} on {devices}"
    site = f"set {release_of(d.serving.engine, d.serving.engine_version)} on {devices}"
    numbers = uniform(group), uniform(f"case {case}"), normal(f"{site} first"), normal(f"{site} step")

    def factors(shape: RunShape, cache_full: bool) -> dict[str, float]:
        servers = _servers(places_of(d), form_of(d), cache_full)
        if servers is None:
            return dict.fromkeys(MEASURES, 1.0)
        ttft, tpot = servers.server(*numbers)
        return servers.factors(ttft, tpot, shape, normal(f"arrivals {case}"))

    return factors


@lru_cache(maxsize=16)
def _servers(places: tuple[tuple[Place, Site], ...], form: str, cache_full: bool) -> Draws | None:
    """What servers may do; of unlike pools the least certain."""
    return max(draws_at(places, form, cache_full=cache_full), key=_width, default=None)


def _width(one: Draws) -> float:
    """How far steps scatter."""
    return float(np.ptp(np.quantile(one.tpot, [one.tail, 1.0 - one.tail])))
