"""Gathers and reductions of ZeRO-3 through one communicator."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from windtunnel import api


def case(gbit: float = 10.0, **plan: Any) -> dict[str, Any]:
    return {
        "model": "openai-community/gpt2-xl",
        "cluster": {
            "device": "a100-pcie-40gb",
            "nodes": 2,
            "devices_per_node": 1,
            "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": gbit * 1e9 / 8},
        },
        "training": {"seq_len": 512, "global_batch": 16, "precision": "tf32", "framework": "fsdp1"},
        "plan": {"zero": 3, "mbs": 4, **plan},
    }


def step(one: bool | None, gbit: float = 10.0, **plan: Any) -> Any:
    asked = case(gbit, overlap={"one_communicator": one}, **plan)
    return api.simulate_training(asked, sensitivities=False, trace=True)


def exchanges(run: Any) -> list[tuple[float, float, str]]:
    """Start, end and tag of gathers and reductions, by start."""
    trace = run.trace
    tags = np.array([trace.tags[t] for t in trace.tag])
    mine = np.flatnonzero(np.isin(tags, ("dp gather", "dp reduce")) & (trace.end_s > trace.start_s))
    return sorted((float(trace.start_s[i]), float(trace.end_s[i]), str(tags[i])) for i in mine)


def overlaps(found: list[tuple[float, float, str]]) -> int:
    return sum(b[0] < a[1] - 1e-9 for a, b in itertools.pairwise(found))


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_they_run_one_after_the_other(depth: int) -> None:
    beside, one = step(None, gathered_layers=depth), step(True, gathered_layers=depth)
    assert overlaps(exchanges(beside)) > 0 or depth == 1
    assert overlaps(exchanges(one)) == 0
    assert one.step_time_s > beside.step_time_s
    assert step(False, gathered_layers=depth).step_time_s == beside.step_time_s


def test_the_next_gather_goes_before_a_layers_reduction() -> None:
    """On a slow network a backward is a queue in which the two kinds take turns."""
    tags = [tag for _, _, tag in exchanges(step(True))]
    first = tags.index("dp reduce")
    pairs = list(itertools.pairwise(tags[first:]))
    alternating = sum(a != b for a, b in pairs)
    assert alternating > 0.6 * len(pairs)


def test_a_fast_network_hides_both() -> None:
    beside, one = (step(value, gbit=1e5).step_time_s for value in (None, True))
    assert one == pytest.approx(beside, rel=0.05)


def test_without_sharded_weights_it_says_that_it_does_nothing() -> None:
    asked = case(zero=1, overlap={"one_communicator": True})
    warnings = " ".join(api.simulate_training(asked, sensitivities=False).warnings)
    assert "plan.overlap.one_communicator" in warnings and "no effect" in warnings
