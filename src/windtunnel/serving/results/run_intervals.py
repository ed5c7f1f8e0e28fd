"""Intervals of a run's means, from residuals of measured rows, for one pool and for several.

One pool and split pools have measured rows of their own. First tokens and steps are drawn together from them, and whole
answers and tokens a second follow from the same draw (`joint_draws`). Heterogeneous pools take the widest of their
intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from windtunnel.cost.serving import release_of
from windtunnel.serving.deployment import Deployment
from windtunnel.serving.results.joint_draws import Band, Draws, RunShape, widest
from windtunnel.serving.results.measured_residuals import Place, Site, kind_of, site_of
from windtunnel.serving.results.residual_bands import draws

_GRADES = ("fitted", "analytic", "assumed")
MEASURE_OF = {
    "ttft_s": "ttft",
    "tpot_s": "tpot",
    "itl_s": "tpot",
    "e2e_s": "e2e",
    "output_tokens_per_s": "throughput",
}
"""Figure → the measure whose factors it takes."""


def intervals(
    d: Deployment, predicted: Mapping[str, float], shape: RunShape, *, cache_full: bool
) -> dict[str, dict[str, Any]]:
    """Each mean with the ends of its interval.

    No token takes less than what one sequence needs to read its weights at the memory's peak.

    Args:
        d: what was run.
        predicted: means by name (`MEASURE_OF`).
        shape: of the run.
        cache_full: whether waiting depends on the cache's exact size.
    """
    decoding = d.pools[-1]
    least_s = decoding.power_cap.work.at(1.0)[2] / decoding.cluster.device.memory_bytes_per_s * 1e6
    least_s /= decoding.limits.tokens_per_step
    found = bands_of(d, shape, cache_full=cache_full)
    out = {
        name: found[MEASURE_OF[name]].around(value, least_s if MEASURE_OF[name] == "tpot" else 0.0)
        for name, value in predicted.items()
        if MEASURE_OF[name] in found and np.isfinite(value)
    }
    acting = ", ".join(x.technique.id for x in d.techniques if x.technique.serving)
    for own in out.values() if acting else ():  # measured rows know nothing of techniques
        own["basis"] = f"{own['basis']}; no rows of {acting}"
        own["grade"] = "assumed" if own["grade"] == "assumed" else "analytic"
    return out


def bands_of(d: Deployment, shape: RunShape, *, cache_full: bool = False) -> dict[str, Band]:
    """Measure → factors on a prediction; the widest of the pools' where they are unlike."""
    split = form_of(d) == "split"
    found = [one.bands(shape) for one in draws_of(d, cache_full=cache_full)]
    out = widest(found, _GRADES)
    if split:
        return {n: Band(b.low, b.high, f"split pools: {b.basis}", b.grade) for n, b in out.items()}
    if len(d.pools) > 1:
        return {
            n: Band(b.low, b.high, f"{b.basis}; no rows of several pools", _worst(b.grade, 1)) for n, b in out.items()
        }
    return out


def draws_of(d: Deployment, *, cache_full: bool = False) -> list[Draws]:
    """What servers may do that nobody measured, one set of draws for each kind of device."""
    return list(draws_at(places_of(d), form_of(d), cache_full=cache_full))


def form_of(d: Deployment) -> str:
    """Form of the measured rows that a deployment is evaluated by: `split` pools, or `whole`."""
    return "split" if d.pools[-1].spec.role == "decode" else "whole"


def places_of(d: Deployment) -> tuple[tuple[Place, Site], ...]:
    """Where each kind of device of a deployment runs: release line, generation and kind of model, and its site."""
    release, kind = release_of(d.serving.engine, d.serving.engine_version), kind_of(d.model)
    devices = dict.fromkeys((p.cluster.device.generation, site_of(p.cluster.device)) for p in d.pools)
    return tuple(((release, one, kind), site) for one, site in devices)


def draws_at(places: Sequence[tuple[Place, Site]], form: str, *, cache_full: bool) -> tuple[Draws, ...]:
    """Draws of servers at places; none of a place whose form nobody measured."""
    found = [draws(place, form=form, cache_full=cache_full, site=site) for place, site in places]
    return tuple(one for one in found if one is not None)


def _worst(grade: str, least: int) -> str:
    return _GRADES[max(_GRADES.index(grade), least)]
