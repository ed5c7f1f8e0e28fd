"""Inputs that once crashed or passed in silence: each is refused with a line that names its field."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.errors import BadInput
from windtunnel.training.predict import prepare

SMALL = {"name": "x", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100, "intermediate_size": 64}
MIXTRAL = "mistralai/Mixtral-8x7B-v0.1"


@pytest.mark.parametrize(
    ("field", "model", "extra"),
    [
        ("training.expert_load.loads", MIXTRAL, ["training.expert_load.loads=[0.5,0.5]", "plan.ep=8"]),
        ("training.expert_load.loads.0", MIXTRAL, ["training.expert_load.loads=[-1,2,0,0,0,0,0,0]", "plan.ep=8"]),
        ("training.lora.targets", MIXTRAL, ["training.phase=lora", "training.lora.targets=[foo]"]),
        ("training.lora.targets", MIXTRAL, ["training.phase=lora", "training.lora.targets=[]"]),
        ("plan.stage_layers.0", MIXTRAL, ["plan.pp=2", "plan.stage_layers=[-1,33]"]),
        ("plan.cp", "meta-llama/Llama-3.1-8B", ["plan.tp=8", "plan.cp=8", "plan.cp_kind=all_to_all"]),
        ("model.num_hidden_layers", SMALL | {"family": "encoder_decoder"}, []),
        ("model.num_hidden_layers", SMALL | {"num_hidden_layers": 10**9}, []),
        ("model.patch_size", SMALL | {"family": "vit"}, []),
        ("model.num_experts", SMALL | {"family": "hybrid", "hybrid_override_pattern": "E*"}, []),
        ("model.hybrid_override_pattern", SMALL | {"family": "hybrid", "hybrid_override_pattern": "Z*"}, []),
        ("model.linear_num_key_heads", SMALL | {"full_attention_interval": 2}, []),
    ],
)
def test_refused_in_words(field: str, model: Any, extra: list[str]) -> None:
    cluster = {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8}
    scenario = {"model": model, "cluster": cluster, "training": {"seq_len": 8192, "global_batch": 128}}
    with pytest.raises(BadInput) as caught:
        prepare(scenario, overrides=extra)
    assert field in {problem.field for problem in caught.value.problems}
