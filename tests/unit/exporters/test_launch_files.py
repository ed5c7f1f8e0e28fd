"""Launch files: the registry of targets, integer checks, wrappers, the option of `train`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from windtunnel.cli.main import run
from windtunnel.errors import BadInput
from windtunnel.exporters.launch import export, list_targets
from windtunnel.exporters.target import options, versions
from windtunnel.training.predict import prepare

SCENARIO = {
    "model": "Qwen/Qwen3-30B-A3B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 64},
    "plan": {"tp": 2, "pp": 2, "ep": 4},
}


def test_targets_and_versions_are_found() -> None:
    assert "megatron" in list_targets()
    for target in list_targets():
        for version in versions(target):
            known = options(target, version)
            assert known.source and known.as_of and known.kinds
            assert known.choices.keys() <= known.kinds.keys()


def test_all_wrong_names_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        export(SCENARIO, "megatorn", None, tmp_path, "slrum")  # type: ignore[arg-type]
    assert "did you mean 'megatron'" in str(caught.value) and "did you mean 'slurm'" in str(caught.value)
    with pytest.raises(BadInput, match=r"known versions: .*0\.19\.2"):
        export(SCENARIO, "megatron", "0.1", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"dp": 3}, "plan.dp"),
        ({"mbs": 5}, "training.global_batch"),
        ({"ep": 3}, "plan.ep"),
        ({"tp": 64}, "plan.tp"),
        ({"stage_layers": (20, 20)}, "plan.stage_layers"),
        ({"vpp": 2, "m": 3}, "training.global_batch"),
        ({"sp": False}, "plan.sp"),
        ({"zero": 1, "shard_group": 3}, "plan.shard_group"),
    ],
)
def test_numbers_that_megatron_refuses_are_refused_here(change: dict[str, Any], field: str, tmp_path: Path) -> None:
    prepared, _ = prepare(SCENARIO)
    export(prepared, "megatron", None, tmp_path / "good")
    broken = replace(prepared, plan=replace(prepared.plan, **change))
    with pytest.raises(BadInput) as caught:
        export(broken, "megatron", None, tmp_path / "bad")
    assert field in [problem.field for problem in caught.value.problems]
    assert not (tmp_path / "bad").exists()


def test_what_cannot_be_said_is_returned_and_written(tmp_path: Path) -> None:
    scenario = SCENARIO | {"plan": {"pp": 2, "schedule": "zb_h1", "offload": {"params": 0.5}}}
    done = export(scenario, "megatron", None, tmp_path)
    text = done.files[0].read_text("utf-8")
    assert any("zb_h1" in item for item in done.unsupported)
    assert any("parameters" in item for item in done.unsupported)
    assert all(item in text for item in (*done.unsupported, *done.notes))


def test_slurm_asks_for_the_cluster(tmp_path: Path) -> None:
    done = export(SCENARIO, "megatron", None, tmp_path, "slurm")
    assert [path.name for path in done.files] == ["megatron.sbatch", "megatron.sh"]
    lines = done.files[0].read_text("utf-8").splitlines()
    assert "#SBATCH --nodes=4" in lines and "#SBATCH --gpus-per-node=8" in lines
    directives = [i for i, line in enumerate(lines) if line.startswith("#SBATCH")]
    assert directives == list(range(1, 1 + len(directives))), "Slurm stops reading at the first other line"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_slurm_starts_the_script_on_a_node(tmp_path: Path) -> None:
    """The batch file runs with stand-ins for scontrol, srun and torchrun; the last prints what it is given."""
    done = export(SCENARIO, "megatron", None, tmp_path, "slurm")
    for name, body in (
        ("scontrol", "printf 'n1\\nn2\\n'"),
        ("srun", 'shift; SLURM_NODEID=3 exec "$@"'),
        ("torchrun", 'printf "%s\\n" "$@"'),
    ):
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "MEGATRON_DIR": "/m",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_JOB_NUM_NODES": "4",
    }
    ran = subprocess.run(
        ["bash", str(done.files[0]), "--seed", "7"], capture_output=True, text=True, env=environment, check=True
    )
    words = ran.stdout.split()
    assert words[words.index("--node-rank") + 1] == "3" and words[words.index("--master-addr") + 1] == "n1"
    assert words[-2:] == ["--seed", "7"]


def test_kubernetes_carries_the_script(tmp_path: Path) -> None:
    done = export(SCENARIO, "megatron", None, tmp_path, "kubernetes")
    config, service, job = yaml.safe_load_all(done.files[0].read_text("utf-8"))
    assert config["data"]["megatron.sh"] == done.files[1].read_text("utf-8")
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 4
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}


def test_train_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(SCENARIO))
    out = tmp_path / "launch"
    assert run(["train", str(path), "--json", "--export", "megatron", "--export-dir", str(out)]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["export"]["files"] == [str(out / "megatron.sh")]
    assert "export  " in printed.err
    assert run(["train", str(path), "--export", "nothing"]) == 2
    assert run(["train", str(path), "--wrapper", "slurm"]) == 2
    assert run(["train", str(path), "--export", "megatron", "--export-dir", str(path)]) == 2
    assert run(["train", str(path), "--export", "megatron", "--target-version", "9"]) == 2


def test_a_plan_beyond_memory_is_said_at_the_head_and_ends_in_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """70 billion parameters take 16 bytes each: 16 of 80 GiB devices' worth on eight (Rajbhandari et al. 2020)."""
    example = Path(__file__).parents[3] / "examples/does-not-fit-70b-8xh100.yaml"
    asked = ["train", str(example), "--json", "--export", "megatron", "--export-dir", str(tmp_path)]
    assert run(asked) == 3
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    needed = (result["memory"]["peak_reserved_bytes"] - result["memory"]["capacity_bytes"]) / 2**30
    head = (tmp_path / "megatron.sh").read_text("utf-8").splitlines()[:4]
    assert head[2] == "# DOES NOT FIT:"
    assert f"{needed:.1f} GiB too much" in head[3]
    assert result["export"]["does_not_fit"] == [head[3].removeprefix("# - ")]
    assert "--force accepts that" in printed.err
    assert run([*asked, "--force"]) == 0
    assert run(["train", str(example), "--force"]) == 2


def test_what_cannot_be_expressed_ends_in_3(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({**SCENARIO, "training": {**SCENARIO["training"], "master_weights": "bf16"}}))
    asked = ["train", str(path), "--export", "megatron", "--export-dir", str(tmp_path / "launch")]
    assert run(asked) == 3
    assert "not expressible" in (tmp_path / "launch/megatron.sh").read_text("utf-8")
    assert run([*asked, "--force"]) == 0


def test_latent_attention_is_launched_with_its_norms(tmp_path: Path) -> None:
    """As Megatron-LM's `examples/megatron_fsdp/sbatch_mfsdp_deepseek_v3.sh`: `gpt_layer_specs.py` asks for it."""
    scenario = {
        "model": "deepseek-ai/DeepSeek-V3",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 128, "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 2048, "framework": "megatron_core"},
        "plan": {"pp": 16, "ep": 64, "zero": 1, "recompute": {"policy": "full"}},
    }
    text = export(scenario, "megatron", None, tmp_path).files[0].read_text("utf-8")
    assert text.count("--qk-layernorm") == 1


def test_techniques_and_named_collectives_are_told_with_what_there_is_for_them(tmp_path: Path) -> None:
    plan = {**SCENARIO["plan"], "collectives": {"all.all_reduce": "tree"}, "collective_library": "nccl_nvls_off"}
    scenario = {**SCENARIO, "plan": plan, "techniques": ["tp-overlap", "c4"]}
    lacking = " ".join(export(scenario, "megatron", None, tmp_path / "m").unsupported)
    assert "technique tp-overlap: not written; megatron has it under --tp-comm-overlap" in lacking
    assert "technique c4: how it is switched on is not known here" in lacking
    assert "collectives: all.all_reduce tree: the communication library chooses" in lacking
    assert "collective_library nccl_nvls_off" in lacking
    dense = {**scenario, "model": "meta-llama/Llama-3.1-8B", "plan": {"tp": 2, "pp": 2}}
    told = " ".join(export(dense, "torchtitan", None, tmp_path / "t").unsupported)
    assert "torchtitan has it under compile.enable_async_tensor_parallel" in told and "collectives" not in told


@pytest.mark.parametrize(
    ("recipe", "module"),
    [
        ("qwen3_30b_a3b_pretrain_8gpu_gb200_fp8mx_config", "perf_recipes.qwen.gb200.qwen3_moe"),
        ("qwen3_30b_a3b_pretrain_8gpu_gb200_fp8mx_functional_config", "recipes.qwen.gb200.qwen3_moe"),
    ],
)
def test_a_recipe_that_a_scenario_names_is_launched(recipe: str, module: str, tmp_path: Path) -> None:
    scenario = {
        "model": "Qwen/Qwen3-30B-A3B",
        "cluster": {"device": "gb200", "nodes": 2, "devices_per_node": 4},
        "training": {"framework": "megatron_bridge", "recipe": recipe},
    }
    export(scenario, "megatron_bridge", None, tmp_path)
    text = "\n".join(path.read_text() for path in tmp_path.iterdir() if path.is_file())
    assert f"megatron.bridge.{module}:{recipe}" in text
