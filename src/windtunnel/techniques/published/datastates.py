"""Checkpoints leave the device while forward and backward run, since neither changes the state.

Copies to page-locked host memory run behind forward and backward; the update waits for what is left of them. Host
threads write the copies on to the shared file system as raw tensors, piece by piece, without serialising them first. A
save that finds no room in the host buffer waits until there is some.

What it costs: host memory, ports and host memory bandwidth that steps want too (`interference` of the tier), and a copy
that can be loaded only after the flush. Saves cannot follow each other faster than the file system takes them, and
where steps are much longer than a save nothing is left to gain.

Source: Maurya et al. 2024, sections 4 and 5.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique

_UNSERIALISED_BYTES_PER_S = 1e12
"""Raw tensors: what a writing process hands on is limited by ports and storage alone."""


def without_files(scenario: Scenario) -> str | None:
    """Why no save can be made lazy; None where one can."""
    run = scenario.run
    tiers = run.checkpoint.tiers if run is not None else ()
    return None if any(tier.to in ("storage", "drive") for tier in tiers) else "no tier writes files"


def _lazy(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    change = {"mode": "lazy", "pinned": True, "buffer_bytes": knobs["buffer_gib"] * 2**30}
    tiers = tuple(
        tier.model_copy(update=change) if tier.to in ("storage", "drive") else tier for tier in run.checkpoint.tiers
    )
    update = {"tiers": tiers, "writer_bytes_per_s": _UNSERIALISED_BYTES_PER_S}
    return run.model_copy(update={"checkpoint": run.checkpoint.model_copy(update=update)})


TECHNIQUE = Technique(
    id="datastates",
    knobs={"buffer_gib": Knob(20.0, 0.1, 1024.0, "page-locked host memory of each writing process, GiB")},
    edits=(("run", "checkpoint mode"),),
    applies_to_run=without_files,
    run_section=_lazy,
    saves="checkpoints",
)
