"""Prompts and answers side by side on one device, each on a share of its SMs, over one set of weights and one cache.

Switches `sm_split` of each pool on (`serving/event_loop/sm_split.py`). Nothing is copied between the phases and neither
stops the
other. What it costs: each phase is slower on fewer SMs; both read weights, and share the memory's rate; shares that
move cost both a pause. Shares are the most that a phase takes. With `decode_share` they may add up to more than the
device: the authors' code starts its processes with 80 and 100 per cent (MPS), so that a phase alone has (nearly) all.

Source: Hong et al. 2025: a resource controller at the level of SMs, unified memory, shares that follow the objectives;
infinigence/Semi-PD python/sglang/semi_pd/utils.py.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.specs.sm_split import SmSplitSpec
from windtunnel.techniques.base import Knob, ServingPart, Technique
from windtunnel.techniques.serving import served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    spec = SmSplitSpec(
        prefill_share=float(knobs["prefill_share"]),
        decode_share=knobs["decode_share"],
        controller=knobs["controller"],
        period_s=float(knobs["period_s"]),
    )
    return with_pools(serving, lambda _: {"sm_split": spec})


TECHNIQUE = Technique(
    id="semi-pd",
    knobs={
        "prefill_share": Knob(0.5, 0.05, 1.0, "most of the SMs for prompts; at the start where it moves"),
        "decode_share": Knob(None, 0.05, 1.0, "most of the SMs for answers; absent: what prompts leave, always"),
        "controller": Knob("fixed", choices=("fixed", "slo"), doc="whether the share follows the objectives"),
        "period_s": Knob(5.0, 0.01, 3600.0, "seconds between two looks at the objectives"),
    },
    edits=(("run", "batching"),),
    applies_to=served,
    serving=ServingPart(settings=_settings),
    saves="answers that wait for prompts",
    resource="waiting",
    where={"sglang": "--enable-pdmux"},
)
