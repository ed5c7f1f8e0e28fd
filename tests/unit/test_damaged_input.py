"""Kinds of damage that `make fuzz` found: each is refused in a line about the field, or computed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kineto_traces import NVJET, kernel, step_range, write

from windtunnel import api
from windtunnel.cli.main import run
from windtunnel.errors import BadInput
from windtunnel.exporters.perfetto import microseconds
from windtunnel.importers import formats
from windtunnel.importers.hf_config import from_hf_config
from windtunnel.importers.kineto import read_kineto
from windtunnel.importers.launch import Wanted
from windtunnel.scenarios.load import load_scenario

CONFIG: dict[str, Any] = {
    "model_type": "mixtral",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}
CLUSTER = {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layer_types": ["full_attention", {"a": 1}]}, "model.layer_types = .*must list one word for each layer"),
        ({"intermediate_size": {"a": 512}}, "model.intermediate_size = .*must be a number, or a list of numbers"),
        ({"hidden_size": float("nan")}, "model.hidden_size = NaN: must be a finite number"),
        ({"vision_config": {"image_size": 10**12}}, "vision_config.image_size = 1000000000000: must be at most"),
        ({"text_config": 3}, "model.text_config = 3: must be a mapping"),
        ({"model_type": {"mixtral": 1}}, "model.model_type = .*must be text"),
        ({"model_type": "doge", "num_key_value_heads": 0}, "num_key_value_heads = 0: must be a whole number from 1"),
    ],
)
def test_values_that_a_config_cannot_hold(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        from_hf_config(CONFIG | changes)


def test_limits_of_time_steps_may_be_infinite() -> None:
    assert from_hf_config(CONFIG | {"time_step_limit": [0.0, float("inf")]}).hidden_size == 256


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"args": "true"}, "args of an event are no mapping"),
        ({"ts": float("nan")}, "ts of an event is no finite number"),
        ({"args": {"correlation": float("inf")}}, "not a trace"),
    ],
)
def test_events_of_profilers_that_hold_something_else(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    events = [step_range(0, 0.0, 1000.0), *kernel(NVJET, 100.0, 50.0), step_range(1, 1000.0, 2000.0)]
    events[2] |= changes
    with pytest.raises(BadInput, match=said):
        read_kineto(write(tmp_path / "t.json", events))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("scenario", [1], "scenario is"),
        ("mfu", "x", "mfu is x, which is not a number"),
        ("breakdown", {"gemm": "long"}, "breakdown is"),
    ],
)
def test_stored_results_that_hold_something_else(
    field: str, value: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", "examples/llama3-8b-8xh100-fsdp.yaml", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (tmp_path / "a.json").write_text(json.dumps(data))
    (tmp_path / "b.json").write_text(json.dumps(data | {field: value}))
    assert run(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("value", ["[[50]]", "many", "{a: 1}", "-5"])
def test_lengths_of_load_generators_that_are_no_numbers(value: str) -> None:
    text = (
        "load: {type: poisson, stages: [{rate: 4, duration: 30}]}\n"
        f"data: {{type: shared_prefix, shared_prefix: {{num_groups: {value}, question_len: {value}}}}}\n"
    )
    launch = formats.read("load", text, "c.yml", Wanted())
    assert any("num_groups" in str(p) for p in launch.problems)


def test_lengths_of_load_generators_beyond_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "load: {stages: [{rate: 1.0e+300, duration: 30}]}\ndata: {type: random, input_distribution: {mean: 50}}\n"
    (tmp_path / "c.yml").write_text(text)
    assert run(["import", str(tmp_path / "c.yml")]) == 2
    assert "serving.traffic.rate_per_s" in capsys.readouterr().err


def test_megatron_experts_of_no_size() -> None:
    text = "torchrun pretrain_gpt.py --num-layers 8 --num-experts 8 --moe-shared-expert-intermediate-size 64 --bf16\n"
    launch = formats.read("megatron", text, "train.sh", Wanted(device="h100-sxm-80gb"))
    assert any("hidden" in str(p) for p in launch.problems)


@pytest.mark.parametrize(("words", "most"), [(["import"], 4), (["calibrate", "--from", "nccl-tests"], 64)])
def test_files_too_large_to_be_what_they_should(
    words: list[str], most: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "all_reduce.sh").open("wb") as file:
        file.truncate(1 << 30)  # takes no space
    assert run([*words, str(tmp_path / "all_reduce.sh")]) == 2
    assert f"{most} MiB" in capsys.readouterr().err


def test_baselines_hold_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "b.json").write_text('{"a.yaml": {"step_time_s": "1.5"}}')
    words = ["check", "examples/llama3-8b-8xh100-fsdp.yaml", "--baseline", str(tmp_path / "b.json")]
    assert run(words) == 2
    assert "a.yaml.step_time_s = 1.5: must be a finite number" in capsys.readouterr().err


@pytest.mark.parametrize("value", [3, "two", {"a": 1}, [3], [[1]]])
def test_something_else_where_groups_stand(value: Any) -> None:
    with pytest.raises(BadInput, match=r"cluster"):
        load_scenario({"model": "meta-llama/Llama-3.1-8B", "cluster": {"groups": value}, "training": {}})


@pytest.mark.parametrize("value", ["\x00", "a\x00b"])
def test_nul_in_names(value: str) -> None:
    with pytest.raises(BadInput, match="must not hold the character NUL"):
        load_scenario({"model": value, "cluster": CLUSTER})


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e30, "1e400 GB"])
def test_quantities_beyond_what_there_is(value: Any) -> None:
    with pytest.raises(BadInput, match=r"cluster.memory_bytes"):
        load_scenario({"model": "x", "cluster": CLUSTER | {"memory_bytes": value}, "training": {}})


def test_a_model_of_more_layers_than_an_instruction_had_keys() -> None:
    small = {
        "name": "deep",
        "hidden_size": 128,
        "num_hidden_layers": 1200,
        "num_attention_heads": 2,
        "intermediate_size": 256,
        "vocab_size": 1000,
    }
    training = {"seq_len": 256, "global_batch": 16}
    result = api.simulate_training(
        {"model": small, "cluster": CLUSTER, "training": training, "plan": {"tp": 2, "zero": 1}}
    )
    assert 0 < result.step_time_s < 60


def test_tensors_that_64_bits_cannot_count() -> None:
    training = {"seq_len": 10**9, "global_batch": 10**9}
    with pytest.raises(BadInput, match=r"4 EiB|must be at most"):
        api.simulate_training(
            {"model": "meta-llama/Llama-3.1-8B", "cluster": CLUSTER, "training": training, "plan": {"mbs": 125_000_000}}
        )


def test_times_beyond_what_a_trace_can_write() -> None:
    assert microseconds(np.array([1.0, 1e30])) == [1e6, 2.0**62 / 1000]


def test_answers_of_millions_of_tokens_take_no_longer() -> None:
    traffic = {"rate_per_s": 2, "num_requests": 8, "input_tokens": 500, "output_tokens": 300_000_000}
    serving = {"engine": "vllm", "router": "prefix_aware", "pools": [{"replicas": 8}], "traffic": traffic}
    result = api.simulate_serving({"model": "openai-community/gpt2", "cluster": CLUSTER, "serving": serving})
    assert result.to_dict()
