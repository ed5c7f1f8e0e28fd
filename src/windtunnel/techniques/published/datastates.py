"""What `datastates.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario

_UNSERIALISED_BYTES_PER_S = 1e12
"""Raw tensors: what a writing process hands on is limited by ports and storage alone."""


def without_files(scenario: Scenario) -> str | None:
    """Why no save can be made lazy; None where one can."""
    run = scenario.run
    tiers = run.checkpoint.tiers if run is not None else ()
    return None if any(tier.to in ("storage", "drive") for tier in tiers) else "no tier writes files"


def run_section(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    change = {"mode": "lazy", "pinned": True, "buffer_bytes": knobs["buffer_gib"] * 2**30}
    tiers = tuple(
        tier.model_copy(update=change) if tier.to in ("storage", "drive") else tier for tier in run.checkpoint.tiers
    )
    update = {"tiers": tiers, "writer_bytes_per_s": _UNSERIALISED_BYTES_PER_S}
    return run.model_copy(update={"checkpoint": run.checkpoint.model_copy(update=update)})


applies_to_run = without_files
