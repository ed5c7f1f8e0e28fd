"""Secure Berrut coded computing: blocks of data encoded into more shares, results decoded from whichever return.

A rational interpolant through the blocks is read at the workers' points; every worker applies the function, whatever it
is, to its combination; the results that have returned are interpolated back. Nobody in particular is waited for, and
the more return the smaller the error. Points of a cosine transform make wrong results stand out as errors of a code do,
two returns for each liar.

What it costs: workers over blocks times the work, and an error of the result.

Source: Borah and Harshan 2025, sections III and IV; Jahani-Nezhad and Maddah-Ali 2020 for the code without liars.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.published.dbw import all_alike, waiting


def _berrut(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    return waiting(run, "berrut", {name: value for name, value in knobs.items() if value is not None})


TECHNIQUE = Technique(
    id="sbacc",
    algorithm="sbacc",
    knobs={
        "blocks": Knob(None, 1, 1000000, "blocks of the batch (K); absent: one a worker"),
        "late": Knob(2, 0, 1000000, "workers not waited for (s)"),
        "liars": Knob(0, 0, 1000000, "wrong results to be found (e)"),
    },
    edits=(("run", "step waits"),),
    applies_to_run=all_alike,
    run_section=_berrut,
    saves="stragglers",
    quality="results are approximate; their error falls with the returns",
)
