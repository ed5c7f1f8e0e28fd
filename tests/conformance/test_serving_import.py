"""What `export` writes for serving engines comes back through `import`; commands that users have are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deployment_cases as cases
import numpy as np
import pytest
import yaml

from windtunnel.cli.main import run
from windtunnel.exporters.launch import export, list_server_targets
from windtunnel.exporters.servers.deployed import deployed
from windtunnel.exporters.target import versions
from windtunnel.importers import formats
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.serving.deployment import prepare
from windtunnel.serving.simulate import with_traffic

pytestmark = pytest.mark.conformance
TARGETS = list_server_targets()
LOST = {
    *(("trtllm", name) for name in ("dp and tp", "dcp", "copies", "captured up to", "fp8", "fp8 cache", "priority")),
    *((target, "fair queue") for target in TARGETS),
}
"""What a target has no word for: refused, or said to be left out (the tests of `export` hold that)."""
OLDER = {
    "0.5.2": ("priority", "ngram", "dcp", "cp", "captured up to"),
    "0.5.12": ("dcp", "captured up to"),
    "0.10.2": ("stream", "dcp", "cp", "host tier", "captured up to"),
}
"""What a release does not have yet."""


def taken(text: str, device: str = "h100-sxm-80gb", file: str = "serve.sh", **wanted: Any) -> Launch:
    """A text that is read without problems."""
    launch = formats.read(formats.detect(text, file), text, file, Wanted(device=device, **wanted))
    assert launch.problems == []
    return launch


@pytest.mark.parametrize(("target", "version"), [(t, v) for t in TARGETS for v in versions(t)])
def test_every_field_that_was_written_comes_back(target: str, version: str, tmp_path: Path) -> None:
    for i, (name, scenario) in enumerate(cases.deployments(target).items()):
        if (target, name) in LOST or name in OLDER.get(version, ()):
            continue
        folder = tmp_path / str(i)
        export(scenario, target, version, folder)
        written = deployed(scenario)
        for pool in written.pools:
            script = folder / f"{target}-{pool.name}.sh"
            launch = taken(script.read_text("utf-8"), scenario["cluster"]["device"], str(script))
            back = launch.scenario()
            assert (back["model"], back["serving"]["engine"]) == (scenario["model"], target), name
            (own,) = back["serving"]["pools"]
            asked = next(p for p in scenario["serving"]["pools"] if p.get("role", "mixed") == pool.spec.role)
            for part in ("plan", "limits", "kv"):
                for field, value in asked.get(part, {}).items():
                    found = own.get(part, {}).get(field)
                    if (part, field, value) in (("limits", "cuda_graphs", True), ("kv", "prefix_caching", True)):
                        assert found in (None, True), (name, field)
                    elif field == "tiers":
                        assert [tier["kind"] for tier in found] == ["host"]
                        assert found[0]["capacity_bytes"] == pytest.approx(value[0]["capacity_bytes"], rel=0.02)
                    else:
                        assert found == value, (name, field, own)
            assert own.get("role", "mixed") == pool.spec.role
            assert own.get("queue", "fcfs") == asked.get("queue", "fcfs"), name
            precision = back["serving"].get("precision", {})
            for field, value in scenario["serving"].get("precision", {}).items():
                assert precision.get(field, "bf16") == value, name
            assert back["serving"].get("expert_load") == scenario["serving"].get("expert_load"), name
            how = scenario["serving"].get("speculation")
            if how:
                assert {k: back["serving"]["speculation"].get(k) for k in how} == how, name
            again = deployed(back)
            one, two = again.pools[0].instance, pool.instance
            assert (one.limits.max_seqs, one.limits.budget, one.limits.block, one.limits.chunked) == (
                two.limits.max_seqs,
                two.limits.budget,
                two.limits.block,
                two.limits.chunked,
            ), name
            assert again.nodes(again.pools[0]) == written.nodes(pool), name
            assert not [left for left in launch.unread if "unknown" in left.why], name


def test_several_servers_of_a_script_are_pools() -> None:
    text = """
    export MODEL=Qwen/Qwen3-32B-FP8
    CUDA_VISIBLE_DEVICES=0 vllm serve $MODEL --port 8100 --tensor-parallel-size 1 \\
      --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}' &
    CUDA_VISIBLE_DEVICES=1 vllm serve $MODEL --port 8101 --tensor-parallel-size=1 \\
      --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}' &
    CUDA_VISIBLE_DEVICES=2,3 vllm serve $MODEL -tp 2 --max-num-seqs 64 --max-model-len 32k \\
      --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}' &
    vllm bench serve --model $MODEL --request-rate 4 --num-prompts 200 --random-input-len 2048 --random-output-len 64 \\
      --burstiness 0.5 --seed 3
    """
    back = taken(text).scenario()
    assert back["model"] == "Qwen/Qwen3-32B" and back["serving"]["precision"] == {"weights": "fp8_block"}
    first, second = back["serving"]["pools"]
    assert (first["role"], first["replicas"], second["role"], second["plan"]) == ("prefill", 2, "decode", {"tp": 2})
    assert second["limits"] == {"max_num_seqs": 64, "max_model_len": 32000}
    assert back["serving"]["traffic"] == {
        "rate_per_s": 4.0,
        "num_requests": 200,
        "input_tokens": 2048,
        "output_tokens": 64,
        "process": "gamma",
        "burstiness": 0.5,
        "seed": 3,
    }


def test_older_spellings_are_read() -> None:
    back = taken(
        """python3 -m sglang.launch_server --model deepseek-ai/DeepSeek-V3 --tp 16 --dp 4 \\
      --enable-dp-attention --nnodes 2 --node-rank 0 --dist-init-addr 10.0.0.1:5000""",
        "h200-sxm-141gb",
    ).scenario()
    (pool,) = back["serving"]["pools"]
    assert pool["plan"] == {"tp": 4, "dp": 4} and back["cluster"]["nodes"] == 2
    assert back["serving"]["precision"] == {"weights": "fp8_block"}
    back = taken(
        "python -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-3.1-8B "
        "--no-enable-prefix-caching --swap-space 4 --tensor_parallel_size 2"
    ).scenario()
    (pool,) = back["serving"]["pools"]
    assert pool == {"plan": {"tp": 2}, "kv": {"prefix_caching": False, "swap_space_bytes": 4.0 * 2**30}}
    back = taken("python -m vllm.entrypoints.cli.main serve meta-llama/Llama-3.1-8B -tp 4").scenario()
    assert back["serving"]["pools"] == [{"plan": {"tp": 4}}]


def test_yaml_files_alone_are_read() -> None:
    text = "tensor_parallel_size: 8\nenable_attention_dp: true\nkv_cache_config:\n  free_gpu_memory_fraction: 0.8\n"
    launch = taken(text, file="llm.yaml", model="deepseek-ai/DeepSeek-V3")
    (pool,) = launch.scenario()["serving"]["pools"]
    assert pool == {"plan": {"dp": 8}, "limits": {"free_gpu_memory_fraction": 0.8}}
    assert launch.where("serving.pools[0].limits.free_gpu_memory_fraction") == (
        "kv-cache-config.free-gpu-memory-fraction",
        4,
    )
    text = "model: meta-llama/Llama-3.1-8B\ntensor-parallel-size: 2\nmax-num-seqs: 32\n"
    (pool,) = taken(text, file="config.yaml").scenario()["serving"]["pools"]
    assert pool == {"plan": {"tp": 2}, "limits": {"max_num_seqs": 32}}


def test_what_is_not_read_is_listed_and_stand_ins_are_said() -> None:
    launch = taken("vllm serve meta-llama/Llama-3.1-8B --enable-dbo --max-num-sequences 4 --host 0.0.0.0")
    said = {left.name: left.why for left in launch.unread}
    assert "technique" in said["enable-dbo"] and "max-num-seqs" in said["max-num-sequences"]
    assert {left.name for left in launch.ignored} == {"host"}
    assert {field for field, _, _ in launch.assumed if field.startswith("serving.traffic")} == {
        "serving.traffic.rate_per_s",
        "serving.traffic.num_requests",
        "serving.traffic.input_tokens",
        "serving.traffic.output_tokens",
    }


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("vllm serve no/such-model", "the model"),
        ("vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size two", "tensor-parallel-size"),
        ("vllm serve meta-llama/Llama-3.1-8B --gpu-memory-utilization 90", "gpu-memory-utilization"),
        ("sglang serve --model-path meta-llama/Llama-3.1-8B --tp 4 --attn-dp-size 3", "attn-dp-size"),
    ],
)
def test_what_cannot_be_read_is_a_problem_with_its_line(text: str, field: str) -> None:
    launch = formats.read(formats.detect(text, "x.sh"), text, "x.sh", Wanted(device="h100-sxm-80gb"))
    (problem,) = launch.problems
    assert (problem.field, problem.line) == (field, 1)


def test_a_load_script_comes_back(tmp_path: Path) -> None:
    base = cases.deployments("vllm")["base"]
    for i, name in enumerate(("poisson", "gamma", "constant", "concurrency", "offline", "even", "prefix")):
        base["serving"]["traffic"] = cases.loads()[name]
        folder = tmp_path / str(i)
        export(base, "vllm", "0.33.0", folder)
        text = "\n".join((folder / name).read_text("utf-8") for name in ("vllm-server.sh", "load.sh"))
        found = taken(text).scenario()["serving"]["traffic"]
        found.pop("seed")
        assert found == cases.loads()[name], name


@pytest.mark.parametrize("target", TARGETS)
def test_replayed_requests_come_back(target: str, tmp_path: Path) -> None:
    """Where a load sends the very requests that were simulated, the scenario that is read does too."""
    base = cases.deployments(target)["base"]
    lengths = {"distribution": "lognormal", "mean": 800, "cv": 1.0, "max": 4000}
    base["serving"]["traffic"] = {
        "rate_per_s": 3,
        "num_requests": 40,
        "input_tokens": lengths,
        "output_tokens": 30,
        "shared_prefix_tokens": 64,
    }
    export(base, target, None, tmp_path)
    text = formats.launch_folder(tmp_path)
    back = taken(text, file=str(tmp_path)).scenario()
    found, sent = [with_traffic(prepare(one))[1].requests for one in (back, base)]
    assert found.input_tokens.tolist() == sent.input_tokens.tolist()
    assert found.output_tokens.tolist() == sent.output_tokens.tolist()
    np.testing.assert_allclose(np.diff(found.arrival_s), np.diff(sent.arrival_s), atol=1e-3)


def test_the_verbs_write_and_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario, out = tmp_path / "scenario.yaml", tmp_path / "again.yaml"
    scenario.write_text(yaml.safe_dump(cases.deployments("sglang")["tp"]), encoding="utf-8")
    assert run(["serve", str(scenario), "--export", "sglang", "--export-dir", str(tmp_path / "launch"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["export"]
    assert [Path(path).name for path in said["files"]] == ["serve.sh", "sglang-server.sh", "load.sh", "load-aiperf.sh"]
    script = tmp_path / "launch" / "sglang-server.sh"
    assert run(["import", str(script), "--device", "h100-sxm-80gb", "--nodes", "4", "-o", str(out)]) == 0
    assert f"next: windtunnel serve {out}" in capsys.readouterr().err
    assert "tp: 4" in out.read_text("utf-8") and run(["serve", str(out), "--json"]) == 0
    capsys.readouterr()
    folder = ["import", str(tmp_path / "launch"), "--device", "h100-sxm-80gb", "--nodes", "4", "--json"]
    assert run(folder) == 0
    assert json.loads(capsys.readouterr().out)["scenario"]["serving"]["traffic"]["rate_per_s"] == 2.0
    assert run(["serve", str(scenario), "--export", "vlm"]) == 2
    assert "did you mean 'vllm'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_search_writes_the_best_deployment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = cases.deployments("vllm")["base"]
    del scenario["serving"]["pools"]
    scenario["search"] = {"target": "serving", "space": {"tp": [1, 2]}}
    scenario["serving"]["slo"] = {"ttft_s": 2.0, "tpot_s": 0.1}
    path = tmp_path / "search.yaml"
    path.write_text(yaml.safe_dump(scenario), encoding="utf-8")
    assert run(["plan", str(path), "--export", "vllm", "--export-dir", str(tmp_path / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "vllm-server.sh" in [Path(file).name for file in found["export"]["files"]]
    (pool,) = found["scenario"]["serving"]["pools"]
    given = cases.given(cases.words(tmp_path / "out" / "vllm-server.sh"))
    assert given["--tensor-parallel-size"] == [str(pool["plan"]["tp"])]


@pytest.mark.parametrize("target", TARGETS)
def test_a_written_folder_is_the_deployment_again(target: str, tmp_path: Path) -> None:
    for i, name in enumerate(("base", "replicas", "split", "prefix aware", "two nodes, dp")):
        scenario = cases.deployments(target)[name]
        export(scenario, target, None, tmp_path / str(i))
        text = formats.launch_folder(tmp_path / str(i))
        device = scenario["cluster"]["device"]
        back = taken(text, device, str(tmp_path / str(i) / "*.sh"), nodes=4).scenario()
        one, two = deployed(back), deployed(scenario)
        assert {pool.spec.role: (pool.spec.replicas, pool.spec.plan) for pool in one.pools} == {
            pool.spec.role: (pool.spec.replicas, pool.spec.plan) for pool in two.pools
        }, name
        if target != "trtllm":  # nginx has no options
            assert one.serving.router == two.serving.router, name
        given, found = two.serving.traffic, one.serving.traffic
        assert (found.rate_per_s, found.num_requests) == (given.rate_per_s, given.num_requests), name
        assert (found.input_tokens, found.output_tokens) == (given.input_tokens, given.output_tokens), name
