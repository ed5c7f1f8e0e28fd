"""DeepSpeed's JSON and torchtitan's TOML become scenarios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windtunnel.cli.main import run
from windtunnel.importers import deepspeed, formats, torchtitan
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import json_lines, options, toml_lines

TOML = """\
[model]
name = "llama3"
flavor = "405B"
converters = ["float8"]
[optimizer]
name = "AdamW"
lr = 8e-5
[training]
local_batch_size = 2
seq_len = 8192
compil = true
[parallelism]
data_parallel_replicate_degree = 2
tensor_parallel_degree = 8
enable_async_tensor_parallel = true
[activation_checkpoint]
mode = "full"
[compile]
enable = true
components = ["model", "loss"]
[float8]
enable_fsdp_float8_all_gather = true
filter_fqns = ["output"]
"""

SMALL_TOML = """\
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 8
seq_len = 4096
[parallelism]
{}
[activation_checkpoint]
mode = "{}"
"""

DEEPSPEED: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4,
    "bf16": {"enabled": True},
    "zero_optimization": {
        "stage": 2,
        "overlap_comm": True,
        "reduce_bucket_size": 500000000,
        "offload_parm": {"device": "none"},
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
    },
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "steps_per_print": 10,
}


def titan(text: str, nodes: int = 16) -> Launch:
    return torchtitan.read(text, "train.toml", Wanted(device="h100-sxm-80gb", nodes=nodes))


def speed(changes: dict[str, Any] | None = None, **wanted: Any) -> Launch:
    base: dict[str, Any] = {"device": "a100-sxm-80gb", "nodes": 2, "model": "llama3-8b", "seq_len": 4096}
    return deepspeed.read(json.dumps(DEEPSPEED | (changes or {}), indent=1), "ds.json", Wanted(**base | wanted))


def test_torchtitan_file_becomes_the_scenario_that_it_launches() -> None:
    launch = titan(TOML)
    assert launch.problems == []
    scenario = launch.scenario()
    assert scenario["model"] == "meta-llama/Llama-3.1-405B"
    training, plan = scenario["training"], scenario["plan"]
    assert (training["seq_len"], training["global_batch"]) == (8192, 2 * 16)
    assert (training["precision"], training["float8_all_gather"], training["compile"]) == ("fp8", True, True)
    assert (plan["tp"], plan["zero"], plan["shard_group"], plan["mbs"]) == (8, 3, 8, 2)
    assert plan["overlap"] == {"tp": True}
    assert plan["recompute"] == {"policy": "full"}
    unread = {left.name: left for left in launch.unread}
    assert set(unread) == {"training.compil", "float8.filter_fqns"}
    assert unread["training.compil"].line == 11
    assert "did you mean training.compile?" in unread["training.compil"].why
    assert [left.name for left in launch.ignored] == ["optimizer.lr"]


@pytest.mark.parametrize(
    ("parallelism", "mode", "field", "value"),
    [
        ("data_parallel_shard_degree = 1\ndata_parallel_replicate_degree = 8", "none", "zero", 0),
        ("context_parallel_degree = 4", "none", "cp_kind", "all_gather"),
        ('fsdp_reshard_after_forward = "never"', "none", "reshard_after_forward", False),
        ('pipeline_parallel_degree = 4\npipeline_parallel_schedule = "Interleaved1F1B"', "none", "vpp", 2),
        ("pipeline_parallel_degree = 4\npipeline_parallel_microbatch_size = 2", "none", "mbs", 2),
        (
            'pipeline_parallel_degree = 2\npipeline_parallel_split_points = ["layers.15"]',
            "none",
            "stage_layers",
            [15, 17],
        ),
        ("", 'selective"\nselective_ac_option = "op', "recompute", {"policy": "modules", "modules": ["per_op"]}),
        ("", "selective", "recompute", {"policy": "full", "num_layers": 16}),
    ],
)
def test_torchtitan_settings(parallelism: str, mode: str, field: str, value: Any) -> None:
    launch = titan(SMALL_TOML.format(parallelism, mode), nodes=1)
    assert launch.problems == []
    assert launch.scenario()["plan"][field] == value


def test_torchtitan_problems_come_with_their_lines() -> None:
    text = SMALL_TOML.replace('"8B"', '"9B"').format('tensor_parallel_degree = "x"', "sometimes")
    lines = [str(problem) for problem in titan(text).problems]
    assert any("model.flavor = 9B" in line and "(train.toml:3)" in line for line in lines)
    assert any("tensor_parallel_degree = x" in line and "(train.toml:8)" in line for line in lines)
    assert any("activation_checkpoint.mode = sometimes" in line for line in lines)


def test_values_of_the_wrong_kind_are_problems() -> None:
    text = SMALL_TOML.format("tensor_parallel_degree = 3\nmodule_fqns_per_model_part = 4", "full")
    lines = [str(problem) for problem in titan(text, nodes=1).problems]
    assert any("module_fqns_per_model_part = 4: must be a list" in line for line in lines)
    alone = titan(SMALL_TOML.format("tensor_parallel_degree = 3", "full"), nodes=1).problems
    assert "tp · pp · cp = 3 must divide the 8 devices" in str(alone[0])


def test_flavors_are_catalogue_entries() -> None:
    from windtunnel import catalog

    for flavors in options("torchtitan")["models"].values():
        for name in flavors.values():
            assert catalog.model(name).name == name


def test_deepspeed_file_becomes_the_scenario_that_it_launches() -> None:
    launch = speed()
    assert launch.problems == []
    scenario = launch.scenario()
    training, plan = scenario["training"], scenario["plan"]
    assert (training["global_batch"], training["precision"], training["framework"]) == (2 * 4 * 16, "bf16", "deepspeed")
    assert (plan["zero"], plan["mbs"], plan["offload"]) == (2, 2, {"optimizer": 1.0})
    assert plan["overlap"] == {"grad_reduce": True, "param_gather": False}
    assert plan["ddp_bucket_size"] == 500_000_000
    assert {left.name for left in launch.unread} == {"zero_optimization.offload_parm.device"}
    assert ("plan.recompute.policy", "none", "the model's code decides") in launch.assumed


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_deepspeed_buckets_have_the_stated_size_and_the_trainers_are_named(stage: int) -> None:
    sizes = {"stage": stage, "reduce_bucket_size": 2e8, "allgather_bucket_size": 2e8}
    launch = speed({"zero_optimization": sizes})
    assert launch.scenario()["plan"]["ddp_bucket_size"] == 200_000_000
    assert not launch.unread and not launch.problems
    left = speed({"zero_optimization": sizes | {"reduce_bucket_size": "auto"}})
    assert "ddp_bucket_size" not in left.scenario()["plan"]
    assert any("hidden_size squared" in one.why for one in left.unread)


def test_deepspeeds_defaults_are_read_and_other_limits_are_listed() -> None:
    usual = {"stage": 3, "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9, "sub_group_size": 1e9}
    assert not speed({"zero_optimization": usual}).unread
    left = speed({"zero_optimization": usual | {"stage3_max_live_parameters": 3e9}}).unread
    assert [one.name for one in left] == ["zero_optimization.stage3_max_live_parameters"]


def test_deepspeed_batches_follow_from_two_of_three() -> None:
    def batch(launch: Launch) -> tuple[int, int]:
        assert launch.problems == []
        return launch.fields["plan.mbs"], launch.fields["training.global_batch"]

    alone = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 4}
    assert batch(speed(alone, mbs=1)) == (1, 64)
    assert batch(speed({**alone, "train_batch_size": 128})) == (2, 128)
    assert batch(speed({"sequence_parallel_size": 4})) == (2, 32)
    wrong = speed({"train_batch_size": 100}).problems
    assert [problem.field for problem in wrong] == ["train_batch_size"]
    auto = speed({"gradient_accumulation_steps": "auto"}).problems
    assert "--global-batch" in str(auto[0])


def test_deepspeed_needs_what_its_file_does_not_hold() -> None:
    launch = speed({"zero_optimization": {"stage": "two"}}, device=None, nodes=None, model=None, seq_len=None)
    assert [problem.field for problem in launch.problems] == [
        "--device",
        "--nodes",
        "--model",
        "--seq-len",
        "zero_optimization.stage",
    ]
    assert launch.problems[-1].line is not None


def test_lines_of_nested_settings() -> None:
    assert json_lines('{"a": {\n"b": [1, {"x": "a:b"}],\n"c": 2}, "d":\n3}') == {
        "a": 1,
        "a.b": 2,
        "a.b.x": 2,
        "a.c": 3,
        "d": 3,
    }
    assert toml_lines("[a.b]\nc = 1\n") == {"a.b": 1, "a.b.c": 2}


def test_formats_are_told_apart() -> None:
    assert formats.detect(TOML, "x") == "torchtitan"
    assert formats.detect(json.dumps(DEEPSPEED), "x") == "deepspeed"
    assert formats.detect("vllm serve meta-llama/Llama-3.1-8B -tp 2", "x") == "vllm"
    assert formats.names()[0] == "hf"
    assert formats.names()[1:] == sorted(formats.names()[1:])
    known = {"axolotl", "deepspeed", "llama_factory", "load", "megatron", "torchtitan", "torchtune", "trl", "vllm"}
    assert known < set(formats.names())


def test_the_verb_writes_scenarios_that_train_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toml, ds, out = tmp_path / "t.toml", tmp_path / "d.json", tmp_path / "out.yaml"
    toml.write_text(SMALL_TOML.format("", "full"))
    ds.write_text(json.dumps(DEEPSPEED))
    assert run(["import", str(toml), "--device", "h100-sxm-80gb", "--nodes", "1", "-o", str(out)]) == 0
    assert run(["train", str(out), "--json"]) == 0
    capsys.readouterr()
    more = ["--model", "llama3-8b", "--seq-len", "2048", "--device", "a100-sxm-80gb", "--nodes", "1"]
    assert run(["import", str(ds), *more, "-o", str(out), "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scenario"]["plan"]["zero"] == 2
    assert run(["train", str(out), "--json"]) == 0
    assert run(["import", str(ds), "--format", "torchtitan"]) == 2
