"""Sequential gradient coding: shares that stragglers leave undone are computed again in later rounds, few are coded.

Gradient coding gives every worker several shares, so that a step can do without as many stragglers as there are copies.
Over a sequence of gradients less will do: stragglers come in bursts, and what a burst leaves undone can be repeated by
the same worker after it. M-SGC codes only what repetition does not reach, so that a worker's load stays near one share;
SR-SGC repeats on top of a code for fewer stragglers.

What it costs: work done more than once, and gradients that are whole some rounds late, so that several models have to
be trained in turn, or updates are stale.

Source: Krishnan et al. 2023, section 3.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.published.dbw import all_alike, waiting


def _coded(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    rule, own = knobs["scheme"], {name: knobs[name] for name in ("burst", "window", "late", "patience")}
    return waiting(run, rule, own)


TECHNIQUE = Technique(
    id="sequential-gradient-coding",
    algorithm="sequential-gradient-coding",
    knobs={
        "scheme": Knob("m-sgc", doc="multiplexed, or selective repeat", choices=("m-sgc", "sr-sgc")),
        "burst": Knob(1, 1, 1000, "rounds that a worker straggles at most in a window (B)"),
        "window": Knob(2, 2, 1000, "rounds of a window (W)"),
        "late": Knob(2, 0, 1000000, "distinct stragglers of a window (λ)"),
        "patience": Knob(1.0, 0.0, 100.0, "share of the fastest worker's time that others are given beyond it (µ)"),
    },
    edits=(("run", "step waits"),),
    applies_to_run=all_alike,
    run_section=_coded,
    saves="stragglers",
    quality="gradients of some rounds ago, or several models in turn",
)
