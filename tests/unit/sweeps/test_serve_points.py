"""`serve --sweep` in processes says what it says in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput

SCENARIO = Path(__file__).parents[3] / "examples" / "serving" / "llama3-70b-4xh100.yaml"
SMALL = ("serving.traffic.num_requests=60",)
CLOCKS = {"elapsed_s", "simulated_in_s"}


def untimed(value: Any) -> Any:
    """Plain data without seconds of this machine; floats as their bits."""
    if isinstance(value, dict):
        return {k: untimed(v) for k, v in value.items() if k not in CLOCKS}
    if isinstance(value, list | tuple):
        return [untimed(v) for v in value]
    return value.hex() if isinstance(value, float) else value


def test_loads_in_processes_change_no_bit() -> None:
    runs: list[int] = []
    here = api.sweep_serving(SCENARIO, "rate=1..16", points=5, overrides=SMALL)
    there = api.sweep_serving(SCENARIO, "rate=1..16", points=5, overrides=SMALL, processes=2, report=runs.append)
    assert untimed(here.to_dict()) == untimed(there.to_dict())
    assert [p.load for p in here.tried] == [p.load for p in there.tried]
    assert runs == list(range(1, len(there.tried) + 1))


def test_values_of_a_field_in_processes_change_no_bit() -> None:
    """Also a value that is not allowed: its row has the same reason."""
    axis = "serving.pools.0.limits.max_num_seqs=8,nonsense,64"
    here = api.sweep_serving_field(SCENARIO, axis, overrides=SMALL)
    there = api.sweep_serving_field(SCENARIO, axis, overrides=SMALL, processes=2)
    assert untimed(here.to_dict()) == untimed(there.to_dict())
    assert [bool(p.reason) for p in there.points] == [False, True, False]


def test_what_is_wrong_is_told_as_in_one_process() -> None:
    with pytest.raises(BadInput, match="trace"):
        api.sweep_serving(SCENARIO, "time_scale=1,2", processes=2)
    with pytest.raises(BadInput, match="engine"):
        api.sweep_serving(SCENARIO, "rate=1,2", overrides=["serving.engine=nonsense"], processes=2)
    with pytest.raises(BadInput, match="max_num_seqs"):
        api.sweep_serving_field(SCENARIO, "serving.pools.0.limits.max_num_seqs=a,b", processes=2)
