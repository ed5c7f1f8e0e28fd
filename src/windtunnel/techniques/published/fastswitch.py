"""What `fastswitch.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec, SwapSpec
from windtunnel.techniques.serving import ServingPart, served, with_pools


def applies_to(scenario: Scenario) -> str | None:
    serving = scenario.serving
    if serving is not None and not any(pool.kv.swap_space_bytes for pool in serving.pools):
        return "no host memory for preempted requests: pools[].kv.swap_space_bytes is 0"
    return served(scenario)


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    swap = SwapSpec(
        group_blocks=int(knobs["group_blocks"]),
        asynchronous=knobs["asynchronous"],
        reuse=knobs["reuse"],
        copy_s=knobs["copy_s"],
    )
    return with_pools(
        serving, lambda pool: {"kv": pool.kv.model_copy(update={"swap": swap})} if pool.kv.swap_space_bytes else {}
    )


serving = ServingPart(settings=_settings)
