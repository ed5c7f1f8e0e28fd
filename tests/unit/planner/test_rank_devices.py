"""`cluster: {device: any}`: each priced device with its best plan, the cheapest per token first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from windtunnel import api, catalog
from windtunnel.cli.main import run
from windtunnel.errors import BadInput, Infeasible
from windtunnel.planner import rank_devices

PRICED = ("a100-sxm-40gb", "h100-sxm-80gb", "v100-sxm-16gb")
TRAINING: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "any", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 32},
}
SERVING: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "any", "nodes": 1, "devices_per_node": 8},
    "serving": {
        "engine": "vllm",
        "traffic": {"rate_per_s": 2.0, "num_requests": 40, "input_tokens": 256, "output_tokens": 32},
    },
    "search": {"target": "serving"},
}


@pytest.fixture(autouse=True)
def few_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three priced devices and one without a price, so that a test takes seconds."""
    monkeypatch.setattr(rank_devices, "catalogue_devices", lambda: (*PRICED, "mi300x"))


@pytest.mark.slow
def test_each_device_has_the_plan_that_a_search_on_it_alone_finds() -> None:
    found = api.rank_devices(TRAINING)
    by_device = {one.device: one for one in found.ranked}
    assert set(by_device) | set(found.without_plan) == set(PRICED) and found.not_priced == ("mi300x",)
    costs = [one.cost_per_million_tokens for one in found.ranked]
    assert costs == sorted(costs)
    for device, one in by_device.items():
        alone = api.plan(TRAINING, overrides=[f"cluster.device={device}"]).to_dict()
        assert one.step_time_s == alone["best"]["step_time_s"] and one.scenario["cluster"]["device"] == device
        price = catalog.device(device).price_per_hour
        assert price is not None and one.cost_per_hour == pytest.approx(8 * price)
        low, high = one.step_time_interval_s or (0.0, 0.0)
        assert low < one.step_time_s < high
        assert api.simulate_training(one.scenario).step_time_s == pytest.approx(one.step_time_s)


def test_devices_without_a_plan_for_the_same_reason_are_named_together() -> None:
    found = rank_devices._reasons({"a": "does not fit; more", "b": "is slow", "c": "does not fit; less"})
    assert found == "a, c: does not fit; b: is slow"


@pytest.mark.slow
def test_a_device_that_is_too_small_is_named_with_its_reason() -> None:
    large = TRAINING | {"model": "meta-llama/Llama-3.1-70B"}
    with pytest.raises(Infeasible, match="no priced device"):
        api.rank_devices(large)
    found = api.rank_devices(large, overrides=["cluster.nodes=4"])
    assert "fits 15.2 GiB" in found.without_plan["v100-sxm-16gb"]
    assert {one.device for one in found.ranked} == {"h100-sxm-80gb"}
    whole = api.rank_devices(large, overrides=["cluster.nodes=4", "search.limits.memory_fraction=1"])
    assert {one.device for one in whole.ranked} == {"a100-sxm-40gb", "h100-sxm-80gb"}


@pytest.mark.slow
def test_prices_of_the_scenario_come_before_those_of_the_catalogue() -> None:
    prices = {"search": {"prices": {"v100-sxm-16gb": 0.01, "mi300x": 4.0}}}
    found = api.rank_devices(TRAINING | prices, overrides=["cluster.nodes=2"])
    assert found.ranked[0].device == "v100-sxm-16gb" and found.ranked[0].cost_per_hour == pytest.approx(0.16)
    assert "mi300x" in {one.device for one in found.ranked}


def test_serving_ranks_deployments() -> None:
    found = api.rank_devices(SERVING)
    assert found.serving and {one.device for one in found.ranked} == set(PRICED)
    for one in found.ranked:
        assert one.step_time_s is None and one.tpot_s and one.tpot_interval_s
        assert one.cost_per_million_tokens == pytest.approx(one.cost_per_hour / one.tokens_per_s / 3600 * 1e6, rel=0.05)


@pytest.mark.parametrize("field", ["price_per_device_hour", "memory_bytes"])
def test_what_devices_differ_in_is_refused(field: str) -> None:
    with pytest.raises(BadInput, match=f"cluster.{field}"):
        api.rank_devices(TRAINING, overrides=[f"cluster.{field}=2"])


def test_the_command_prints_all_and_writes_the_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, best = tmp_path / "any.yaml", tmp_path / "best.yaml"
    path.write_text(yaml.safe_dump(TRAINING))
    assert run(["plan", str(path), "--output", str(best)]) == 0
    out = capsys.readouterr().out
    assert all(device in out for device in PRICED)
    assert run(["train", str(best), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step_time_s"] > 0
    assert run(["train", str(path)]) == 2
    assert "cluster.device = any" in capsys.readouterr().err
