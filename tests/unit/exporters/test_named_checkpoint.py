"""An exported command loads the checkpoint that the scenario names, not the model that has its architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windtunnel.exporters.servers.launch import server_files

CHECKPOINTS = {
    "deepseek-ai/DeepSeek-R1": "deepseek-ai/DeepSeek-R1",
    "meta-llama/Llama-3.3-70B-Instruct": "meta-llama/Llama-3.3-70B-Instruct",
    "Qwen/Qwen3-30B-A3B-Instruct-2507": "Qwen/Qwen3-30B-A3B-Instruct-2507",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "nvidia/Llama-3.1-8B-Instruct-FP8",
    "DeepSeek-R1": "deepseek-ai/DeepSeek-R1",
}


def scenario(model: Any, engine: str, **precision: str) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "model": model,
        "cluster": {"device": "h200-sxm-141gb", "nodes": 1},
        "serving": {
            "engine": engine,
            "precision": precision,
            "pools": [{"plan": {"tp": 8}}],
            "traffic": {"rate_per_s": 2, "num_requests": 8, "input_tokens": 100, "output_tokens": 10},
        },
    }


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("model", CHECKPOINTS)
def test_the_checkpoint_is_the_one_that_is_named(model: str, engine: str) -> None:
    files, draft = server_files(scenario(model, engine), engine, None, "none")
    assert CHECKPOINTS[model] in "\n".join(files.values())
    assert not any("stand-in" in note for note in draft.notes)


def test_a_model_that_is_spelled_out_has_a_stand_in() -> None:
    own = {
        "name": "mine",
        "hidden_size": 4096,
        "num_hidden_layers": 8,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 32000,
    }
    _, draft = server_files(scenario(own, "vllm"), "vllm", None, "none")
    assert "mine is no checkpoint's name: MODEL is a stand-in" in draft.notes


def test_a_format_that_the_name_says_is_not_cast_to() -> None:
    model = "nvidia/Llama-3.1-8B-Instruct-FP8"
    _, draft = server_files(scenario(model, "vllm", weights="fp8"), "vllm", None, "none")
    assert not any("cast to fp8" in note for note in draft.notes)
    _, plain = server_files(scenario("meta-llama/Llama-3.1-8B", "vllm", weights="fp8"), "vllm", None, "none")
    assert any("cast to fp8" in note for note in plain.notes)


def test_the_plan_is_printed_before_the_reason_why_it_is_not_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    from windtunnel.cli.main import run

    data = scenario("meta-llama/Llama-3.1-8B", "generic")
    data["cluster"]["devices_per_node"] = 2
    data["serving"]["pools"] = [{"plan": {"tp": 1}, "limits": {"max_num_seqs": 1024, "max_num_batched_tokens": 512}}]
    data["search"] = {"target": "serving", "slo_at": "central", "space": {"replicas": [1]}}
    data["serving"]["slo"] = {"ttft_s": 5.0, "tpot_s": 0.5}
    file = tmp_path / "plan.yaml"
    file.write_text(json.dumps(data), "utf-8")
    code = run(["plan", str(file), "--export", "vllm", "--export-dir", str(tmp_path / "out"), "--json"])
    told = capsys.readouterr()
    answer = json.loads(told.out)
    assert code == 2 and answer["best"]["plan"]["max_num_seqs"] == 1024
    assert "max_num_batched_tokens" in answer["export"]["refused"] and "must be at least" in told.err
