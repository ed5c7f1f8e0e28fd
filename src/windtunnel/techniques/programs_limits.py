"""What techniques of programs share: the case that their limits are tested in, and what they may cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windtunnel.techniques.limits import Limits, merged

ASSUMED = "accuracy follows a fitted or assumed population of problems and is never simulated"
ONE_ATTEMPT: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
    "programs": {
        "strategy": "budget_forcing",
        "problems": 30,
        "offline": True,
        "input_tokens": 200,
        "output_tokens": 256,
        "verifier": {"separation": 1.0},
    },
    "population": {"beta": {"a": 0.4, "b": 0.8}},
}
"""One attempt without a cap at each of thirty problems, a third of which it gets right."""
ALL_ALIKE_RIGHT: dict[str, Any] = {"population": {"beta": {"a": 1e6, "b": 1.0}}}
"""One attempt is right already: there is nothing to choose."""


def more_accurate(scenario: Mapping[str, Any] | None = None) -> Limits:
    """Accuracy next to that of one attempt, which dollars pay for.

    Args:
        scenario: merged into the case.
    """
    return Limits(
        scenario=merged(ONE_ATTEMPT, scenario or {}),
        measure="last.accuracy.mean",
        larger=True,
        free=ALL_ALIKE_RIGHT,
        pays="last.cost_usd",
    )
