"""Host memory that levels of the cache take, autoscalers on Kubernetes, and a starter that stands for its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import windtunnel as wt
from windtunnel.cli.main import run
from windtunnel.errors import BadInput
from windtunnel.exporters.servers.launch import server_files
from windtunnel.techniques.limits import merged

BASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4, "host_memory_bytes": "500 GB"},
    "serving": {
        "engine": "vllm",
        "pools": [{"replicas": 2}],
        "traffic": {"rate_per_s": 4, "num_requests": 40, "input_tokens": 500, "output_tokens": 20},
    },
}
HOST = {"kind": "host", "capacity_bytes": "200 GB"}


def with_pool(pool: dict[str, Any], **serving: Any) -> dict[str, Any]:
    return merged(BASE, {"serving": {"pools": [pool], **serving}})


def test_host_levels_must_fit_into_the_host() -> None:
    assert wt.simulate_serving(with_pool({"replicas": 2, "kv": {"tiers": [HOST]}})).completed == 40
    with pytest.raises(BadInput) as caught:
        wt.simulate_serving(with_pool({"replicas": 3, "kv": {"tiers": [HOST]}}))
    assert [p.field for p in caught.value.problems] == ["serving.pools[0].kv.tiers[0].capacity_bytes"]
    assert "600 GB" in str(caught.value) and "500 GB" in str(caught.value)


def test_all_that_may_ever_be_there_counts_and_swap_space_with_it() -> None:
    scaled = {"autoscale": {"min": 1, "max": 4, "target": 8}}
    with pytest.raises(BadInput, match="600 GB"):
        wt.simulate_serving(with_pool({"replicas": 1, "kv": {"swap_space_bytes": "150 GB"}}, **scaled))
    assert wt.simulate_serving(with_pool({"replicas": 1, "kv": {"swap_space_bytes": "150 GB"}})).completed == 40


def test_an_instance_of_two_nodes_has_the_memory_of_both() -> None:
    wide = merged(
        with_pool({"plan": {"tp": 8}, "kv": {"tiers": [HOST | {"capacity_bytes": "900 GB"}]}}),
        {
            "cluster": {"nodes": 2},
        },
    )
    assert wt.simulate_serving(wide).completed == 40
    too_much = merged(
        wide, {"serving": {"pools": [{"plan": {"tp": 8}, "kv": {"tiers": [HOST | {"capacity_bytes": "1001 GB"}]}}]}}
    )
    with pytest.raises(BadInput, match="1,001 GB over 2 nodes"):
        wt.simulate_serving(too_much)


@pytest.mark.parametrize(
    ("engine", "signal", "metric"),
    [("vllm", "concurrency", "vllm:num_requests_waiting"), ("sglang", "kv_cache_usage", "sglang:token_usage")],
)
def test_autoscalers_become_scaled_objects(engine: str, signal: str, metric: str) -> None:
    scaler = {"min": 1, "max": 3, "target": 6, "signal": signal, "cooldown_s": 120}
    made = with_pool({"replicas": 2}, engine=engine, autoscale=scaler)
    files, draft = server_files(made, engine, None, "kubernetes")
    objects = {one["kind"]: one for one in yaml.safe_load_all(files["serve.yaml"])}
    assert "StatefulSet" not in objects and draft.entry is None
    scaled, workload = objects["ScaledObject"]["spec"], objects["Deployment"]
    assert scaled["scaleTargetRef"]["name"] == workload["metadata"]["name"]
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (1, 3)
    trigger = scaled["triggers"][0]
    assert trigger["metadata"]["threshold"] == "6" and metric in trigger["metadata"]["query"]
    down = scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    assert down["stabilizationWindowSeconds"] == 120
    assert not any("autoscale" in item for item in draft.unsupported)
    assert ("--enable-metrics" in files[f"{engine}-server.sh"]) == (engine == "sglang")


def test_what_no_autoscaler_holds_is_said() -> None:
    made = with_pool({"replicas": 2}, engine="trtllm", autoscale={"max": 3, "target": 6})
    files, draft = server_files(made, "trtllm", None, "kubernetes")
    assert "ScaledObject" not in files["serve.yaml"]
    assert any(item.startswith("serving.autoscale") for item in draft.unsupported)


def test_a_starter_is_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario, launch = tmp_path / "one.yaml", tmp_path / "launch"
    scenario.write_text(yaml.safe_dump(BASE))
    assert run(["serve", str(scenario), "--export", "vllm", "--export-dir", str(launch)]) == 0
    found = []
    for i, source in enumerate((launch, launch / "serve.sh")):
        out = tmp_path / f"back{i}.yaml"
        assert run(["import", str(source), "--device", "h100-sxm-80gb", "--output", str(out)]) == 0
        found.append(yaml.safe_load(out.read_text()))
    assert found[0] == found[1] and found[0]["serving"]["pools"][0]["replicas"] == 2
    capsys.readouterr()
