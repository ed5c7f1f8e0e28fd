"""What `export` writes for serving engines, read by each engine's own parser from `.venv-targets` (`make targets`).

TensorRT-LLM is not there: what the package index has of it only downloads the real package from elsewhere. The options
of aiperf and of the routers are held against their lists alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deployment_cases as cases
import pytest
from own_code import own_code

from windtunnel.exporters.launch import export
from windtunnel.exporters.servers.deployed import Deployed, deployed

pytestmark = [pytest.mark.conformance, pytest.mark.slow]


def written(target: str, version: str, folder: Path) -> dict[str, tuple[Deployed, int, list[str]]]:
    """Case and pool → what was resolved, the pool's number, and the words after the program."""
    out = {}
    for i, (name, scenario) in enumerate(cases.deployments(target).items()):
        place = folder / str(i)
        export(scenario, target, version, place)
        made = deployed(scenario)
        for number, pool in enumerate(made.pools):
            command = cases.words(place / f"{target}-{pool.name}.sh", NODE_RANK="0", INSTANCE="0", LEADER="node0")
            begin = {"vllm": command.index("serve") if target == "vllm" else 0, "sglang": 2}[target]
            out[f"{name}, {pool.name}"] = (made, number, [evaluated(word) for word in command[begin + 1 :]])
    return out


def evaluated(word: str) -> str:
    """A word with its port as a number, as a shell would make it."""
    return "9000" if word.startswith("$((") or word == "$PORT" else word


@pytest.mark.parametrize("version", ["0.10.2", "0.20.2", "0.33.0"])
def test_vllm(version: str, tmp_path: Path) -> None:
    done = written("vllm", version, tmp_path)
    given: list[dict[str, Any]] = [{"program": "serve", "arguments": words} for _, _, words in done.values()]
    found = own_code("vllm", "vllm", version, given, tmp_path)
    assert {name: got["error"] for name, got in zip(done, found, strict=True) if got["error"]} == {}
    for (name, (made, number, _)), got in zip(done.items(), found, strict=True):
        pool, read = made.pools[number], got["read"]
        plan, limits = pool.spec.plan, pool.instance.limits
        assert (read["tensor_parallel_size"], read["pipeline_parallel_size"], read["data_parallel_size"]) == (
            plan.tp,
            plan.pp,
            plan.dp,
        ), name
        assert (read["max_num_seqs"], read["max_num_batched_tokens"]) == (
            limits.max_seqs // plan.dp,
            limits.budget // plan.dp,
        ), name
        assert read["enable_expert_parallel"] is (plan.ep > 1), name
        assert read["enable_prefix_caching"] is pool.instance.prefix_caching, name
        assert read["enforce_eager"] is not pool.instance.cuda_graphs, name
        role = {"prefill": "kv_producer", "decode": "kv_consumer"}.get(pool.spec.role)
        assert role is None or read["kv_transfer_config"]["kv_role"] == role, name


@pytest.mark.parametrize("version", ["0.10.2", "0.20.2", "0.33.0"])
def test_vllm_bench(version: str, tmp_path: Path) -> None:
    given, counts = [], []
    base = cases.deployments("vllm")["base"]
    for i, traffic in enumerate(cases.loads().values()):
        base["serving"]["traffic"] = traffic
        export(base, "vllm", version, tmp_path / str(i))
        words = cases.words(tmp_path / str(i) / "load.sh")
        given.append({"program": "bench", "arguments": words[words.index("serve") + 1 :]})
        counts.append(traffic)
    found = own_code("vllm", "vllm", version, given, tmp_path)
    assert [got["error"] for got in found if got["error"]] == []
    for traffic, got in zip(counts, found, strict=True):
        read = got["read"]
        assert read["max_concurrency"] == traffic.get("concurrency")
        if read["dataset_name"] == "random" and "rate_per_s" in traffic:
            assert float(read["request_rate"]) == traffic["rate_per_s"]


def test_sglang(tmp_path: Path) -> None:
    done = written("sglang", "0.5.23", tmp_path)
    found = own_code("sglang", "sglang", "0.5.23", [{"arguments": words} for _, _, words in done.values()], tmp_path)
    assert {name: got["error"] for name, got in zip(done, found, strict=True) if got["error"]} == {}
    for (name, (made, number, _)), got in zip(done.items(), found, strict=True):
        pool, read = made.pools[number], got["read"]
        plan, limits = pool.spec.plan, pool.instance.limits
        assert read["tp_size"] == plan.tp * plan.dp * plan.cp and read["attn_dp_size"] == plan.dp, name
        assert read["ep_size"] == plan.ep and read["pp_size"] == plan.pp, name
        assert (read["max_running_requests"], read["page_size"]) == (limits.max_seqs, limits.block), name
        assert read["chunked_prefill_size"] == (limits.budget if limits.chunked else -1), name
        assert read["disable_radix_cache"] is not pool.instance.prefix_caching, name
        assert read["disaggregation_mode"] == {"mixed": "null"}.get(pool.spec.role, pool.spec.role), name
