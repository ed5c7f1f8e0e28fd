"""A Hugging Face config.json pasted under `model:` of a scenario is the model that the file is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windtunnel.errors import BadInput
from windtunnel.importers.hf_config import checkpoint_formats
from windtunnel.importers.model import resolve_model
from windtunnel.scenarios.load import load
from windtunnel.training.predict import simulate_training

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 4096,
    "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 32000,
    "max_position_embeddings": 40960, "torch_dtype": "bfloat16", "rope_theta": 1000000,
    "quantization_config": {"quant_method": "awq", "bits": 4},
}  # fmt: skip
WORK = {
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"global_batch": 16, "seq_len": 1024},
    "plan": {"dp": 8},
}


def test_pasted_and_on_disk_are_one_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), "utf-8")
    pasted, _, _ = load({"model": CONFIG, **WORK})
    on_disk, _, _ = load({"model": {"config": "config.json"}, **WORK})
    one, other = resolve_model(pasted, tmp_path), resolve_model(on_disk, tmp_path)
    assert one.model_dump(exclude={"name", "provenance"}) == other.model_dump(exclude={"name", "provenance"})
    assert one.name == "qwen3"


def test_a_name_beside_the_fields_names_the_model(tmp_path: Path) -> None:
    scenario, _, _ = load({"model": CONFIG | {"name": "mine"}, **WORK})
    assert resolve_model(scenario, tmp_path).name == "mine"


def test_it_is_simulated_and_its_result_has_the_dimensions() -> None:
    result = simulate_training({"model": CONFIG, **WORK})
    assert result.step_time_s > 0
    assert result.scenario["model"]["hidden_size"] == 1024


def test_what_is_wrong_in_it_is_said_by_field(tmp_path: Path) -> None:
    scenario, _, _ = load({"model": {k: v for k, v in CONFIG.items() if k != "vocab_size"}, **WORK})
    with pytest.raises(BadInput, match="vocab_size"):
        resolve_model(scenario, tmp_path)


def test_formats_of_a_pasted_file_and_of_one_beside_it(tmp_path: Path) -> None:
    assert checkpoint_formats(CONFIG) == {"weights": "w4a16"}
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": None}), "utf-8")
    own = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["*self_attn*", "lm_head"]}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": own}), "utf-8")
    found = {"weights": "nvfp4", "kv_cache": "fp8", "attention": "bf16"}
    assert checkpoint_formats(tmp_path) == found
    assert checkpoint_formats(tmp_path / "config.json") == found


def test_the_first_checkpoints_format_of_experts_does_not_go_before_that_of_another() -> None:
    own = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["*.attn.*"]}
    config = CONFIG | {"n_routed_experts": 8, "expert_dtype": "fp4", "quantization_config": own}
    assert checkpoint_formats(config) == {"weights": "bf16", "experts": "nvfp4"}
    blocks = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    first = checkpoint_formats(config | {"quantization_config": blocks})
    assert first == {"weights": "fp8_block", "experts": "mxfp4"}


def test_the_base_of_a_tuned_model_stands_among_the_assumptions() -> None:
    result = simulate_training({"model": "allenai/Llama-3.1-Tulu-3-8B-DPO", **WORK})
    (said,) = [one for one in result.assumed if one.field == "model"]
    assert said.value == "meta-llama/Llama-3.1-8B" and "Tulu-3" in said.why
    plain = simulate_training({"model": "meta-llama/Llama-3.1-8B", **WORK})
    assert not [one for one in plain.assumed if one.field == "model"]
    assert plain.step_time_s == result.step_time_s
