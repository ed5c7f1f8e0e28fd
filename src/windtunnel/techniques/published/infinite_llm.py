"""Keys and values spread over the instances of a pool: those with short contexts lend memory to those with long ones.

Attention over what lies elsewhere is computed where it lies: queries go there, partial outputs come back. A prompt may
be longer than any instance holds, and batches of an instance with long prompts need not shrink.

What it costs: two messages a layer in every step that reads lent blocks, and the lender reads those blocks beside its
own. The mechanism is `serving/kv_tiers/lending.py`.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, ServingPart, Technique
from windtunnel.techniques.serving import served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    on = {"lending": True, "lending_kept": float(knobs["kept"])}
    return with_pools(serving, lambda pool: {"kv": pool.kv.model_copy(update=on)})


def _applies(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    pools = scenario.serving.pools
    return None if pools and pools[0].replicas > 1 else "there is one instance: nobody can lend"


TECHNIQUE = Technique(
    id="infinite-llm",
    knobs={"kept": Knob(0.1, 0.0, 0.9, "share of its blocks that an instance does not lend")},
    edits=(("run", "kv-lending"),),
    applies_to=_applies,
    serving=ServingPart(settings=_settings),
    saves="cache that stands empty elsewhere",
    resource="memory",
)
