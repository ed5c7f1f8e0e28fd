"""What a scenario leaves open is listed; what it says is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from windtunnel.training.predict import simulate_training

CLUSTER = {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8}


def listed(model: Any, training: dict[str, Any], plan: dict[str, Any]) -> dict[str, str]:
    scenario = {"model": model, "cluster": CLUSTER, "plan": plan}
    scenario["training"] = {"seq_len": 2048, "global_batch": 16} | training
    return {a.field: a.value for a in simulate_training(scenario, sensitivities=False).assumed}


def test_defaults_are_listed_until_they_are_said() -> None:
    model = "meta-llama/Llama-3.2-1B"
    open_ = listed(model, {}, {"tp": 2, "pp": 2})
    assert open_["training.framework"] == "megatron_core"
    assert open_["plan.schedule"] == "1f1b"
    assert open_["plan.sp"] == "on"
    assert open_["plan.overlap.grad_reduce"] == "on"
    said = listed(
        model,
        {"framework": "nemo", "attention": "flash2", "master_weights": "fp32"},
        {"tp": 2, "pp": 2, "sp": False, "schedule": "zb_h1", "overlap": {"grad_reduce": False}},
    )
    gone = {"framework", "attention", "master_weights"}
    assert not {f"training.{field}" for field in gone} & said.keys()
    assert not {"plan.sp", "plan.schedule", "plan.overlap.grad_reduce"} & said.keys()


def test_what_an_imported_config_leaves_open_is_listed(tmp_path: Path) -> None:
    config = {
        "model_type": "unheard_of",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "vocab_size": 100,
        "intermediate_size": 64,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = listed({"config": str(tmp_path / "config.json")}, {}, {})
    assert found["model.model_type"] == "unheard_of"


def test_a_result_of_an_imported_config_stands_without_the_file(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "vocab_size": 100,
        "intermediate_size": 64,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    scenario = {"model": {"config": str(tmp_path / "config.json")}, "cluster": CLUSTER}
    scenario["training"] = {"seq_len": 512, "global_batch": 8}
    first = simulate_training(scenario, sensitivities=False)
    (tmp_path / "config.json").unlink()
    assert simulate_training(first.scenario, sensitivities=False).step_time_s == first.step_time_s
