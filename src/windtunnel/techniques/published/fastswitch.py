"""FastSwitch: cheap context switches, for preemption that fairness asks for.

It acts on `kv.swap` (`serving/event_loop/swapping.py`): blocks in groups, copies beside iterations,
host copies that are kept. Who is
preempted is the queue's to say (`queue: priority_trace`, `priority_preempt`, `srtf`).

Source: Shen et al. 2024, section 3.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec, SwapSpec
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.serving import ServingPart, served, with_pools


def _applies(scenario: Scenario) -> str | None:
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


TECHNIQUE = Technique(
    id="fastswitch",
    knobs={
        "group_blocks": Knob(20, 1, 100_000, "blocks that one copy moves"),
        "asynchronous": Knob(True, doc="copies run beside iterations"),
        "reuse": Knob(True, doc="host copies are kept while a request lives"),
        "copy_s": Knob(8e-6, 0.0, 1.0, "from the start of one copy to the next one's, at least", given=True),
    },
    edits=(("run", "swap"),),
    applies_to=_applies,
    serving=ServingPart(settings=_settings),
    saves="waiting for copies of caches",
    resource="host link",
)
