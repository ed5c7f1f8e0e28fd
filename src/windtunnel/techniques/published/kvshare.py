"""Keys and values of requests that resemble each other without a common prefix, some tokens computed again.

What it costs: keys and values are loaded from the host, and a share of them is computed again, attending to all before.
How often prompts resemble each other is a property of the traffic and stated as knobs. The mechanism is
`serving/kv_tiers/approximate_reuse.py`; requests that reuse most go first (longest prefix match).
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.kv_tiers import SimilarSpec
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import Knob, ServingPart, Technique
from windtunnel.techniques.serving import served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    own = SimilarSpec(share=knobs["share"], matched=knobs["matched"], recomputed=knobs["recomputed"])
    on = {"prefix_caching": True, "similar": own}
    return with_pools(
        serving,
        lambda pool: {
            "kv": pool.kv.model_copy(update=on),
            "queue": "lpm" if knobs["by_hits"] and pool.queue == "fcfs" else pool.queue,
        },
    )


TECHNIQUE = Technique(
    id="kvshare",
    knobs={
        "share": Knob(0.5, 0.0, 1.0, "share of requests that resemble an earlier one", given=True),
        "matched": Knob(0.9, 0.0, 1.0, "share of such a prompt whose keys and values are taken over", given=True),
        "recomputed": Knob(0.1, 0.0, 1.0, "share of those that are computed again"),
        "by_hits": Knob(True, doc="requests that reuse most go first"),
    },
    edits=(("run", "kv-similar"),),
    applies_to=served,
    serving=ServingPart(settings=_settings),
    saves="prompt tokens that are computed",
    resource="compute",
    quality="keys and values of similar text stand in for exact ones: answers may differ",
)
