"""Files and commands of fine-tuning tools as scenarios: what is read, what is assumed, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windtunnel.cli.main import run
from windtunnel.importers import formats
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.training import predict

AXOLOTL = """\
base_model: NousResearch/Meta-Llama-3-8B
load_in_4bit: true
adapter: qlora
lora_r: 24
lora_alpha: 48
lora_dropout: 0.1
lora_target_modules: [q_proj, v_proj, down_proj]
sequence_len: 3072
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 8
optimizer: paged_adamw_8bit
bf16: auto
gradient_checkpointing: true
gradient_checkpointing_kwargs:
  use_reentrant: false
flash_attention: true
wandb_project: mine
colour: blue
"""
LLAMA_FACTORY = """\
model_name_or_path: meta-llama/Llama-3.1-8B
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 12
lora_target: q_proj,k_proj,v_proj,o_proj
use_dora: true
quantization_bit: 8
cutoff_len: 1536
per_device_train_batch_size: 3
gradient_accumulation_steps: 2
bf16: true
flash_attn: fa2
"""
TORCHTUNE = """\
# tune run --nproc_per_node 4 lora_finetune_distributed --config mine
model:
  _component_: torchtune.models.llama3_1.qlora_llama3_1_8b
  lora_attn_modules: ['q_proj', 'output_proj']
  apply_lora_to_mlp: True
  lora_rank: 20
  lora_alpha: 40
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  max_seq_len: 4096
dataset:
  _component_: torchtune.datasets.alpaca_dataset
  packed: True
batch_size: 2
gradient_accumulation_steps: 4
optimizer:
  _component_: torch.optim.AdamW
  lr: 1e-4
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
dtype: bf16
compile: False
enable_activation_checkpointing: True
enable_activation_offloading: True
"""
TRL = """\
accelerate launch --config_file configs/deepspeed_zero3.yaml --num_processes 4 \\
  examples/scripts/sft.py \\
  --model_name_or_path Qwen/Qwen3-8B \\
  --max_length 2560 --packing \\
  --per_device_train_batch_size 2 --gradient_accumulation_steps 4 \\
  --use_peft --lora_r 40 --lora_target_modules all-linear --load_in_4bit --use_bnb_nested_quant
"""
ACCELERATE = """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_reshard_after_forward: true
  fsdp_offload_params: true
mixed_precision: bf16
num_machines: 2
num_processes: 8
"""


def imported(text: str, file: str = "mine.yaml", **wanted: Any) -> Launch:
    """The launch that a text becomes."""
    asked = Wanted(**{"device": "h100-sxm-80gb", **wanted})
    return formats.read(formats.detect(text, file), text, file, asked)


def fields(text: str, **wanted: Any) -> dict[str, Any]:
    """Fields of a text that reads without a problem and prepares."""
    launch = imported(text, **wanted)
    assert not launch.problems, launch.problems
    predict.prepare(launch.scenario())
    return launch.fields


def test_axolotl_qlora_on_one_card() -> None:
    read = fields(AXOLOTL, device="rtx-4090")
    expected = {
        "cluster.nodes": 1,
        "cluster.devices_per_node": 1,
        "training.phase": "lora",
        "training.framework": "transformers",
        "training.seq_len": 3072,
        "training.global_batch": 16,
        "training.optimizer": "adam8bit",
        "training.attention": "flash2",
        "training.lora.rank": 24,
        "training.lora.targets": ["q", "v", "fc2"],
        "training.lora.dropout": 0.1,
        "training.lora.quantized_base": "nf4",
        "plan.mbs": 2,
        "plan.recompute.policy": "full",
        "plan.recompute.early_stop": True,
    }
    assert {name: read[name] for name in expected} == expected


def test_axolotl_lists_what_it_does_not_read() -> None:
    launch = imported(AXOLOTL)
    assert ("colour", "unknown option") in [(left.name, left.why) for left in launch.unread]
    assert any(left.name == "optimizer" and "pages" in left.why for left in launch.unread)
    assert "wandb_project" in [left.name for left in launch.ignored]


@pytest.mark.parametrize(
    ("changed", "field", "value"),
    [
        (("load_in_4bit: true\nadapter: qlora", "load_in_8bit: true\nadapter: lora"), "lora.quantized_base", "int8"),
        (("lora_target_modules: [q_proj, v_proj, down_proj]", "lora_target_linear: true"), "lora.targets", 7),
        (("lora_dropout: 0.1", "peft_use_dora: true"), "lora.dora", True),
        (("lora_dropout: 0.1", "lora_modules_to_save: [lm_head]"), "lora.trained", ["head"]),
    ],
)
def test_axolotl_adapters(changed: tuple[str, str], field: str, value: Any) -> None:
    found = fields(AXOLOTL.replace(*changed))[f"training.{field}"]
    assert (len(found) if isinstance(value, int) and not isinstance(value, bool) else found) == value


def test_axolotl_deepspeed_by_the_name_of_its_file() -> None:
    read = fields(AXOLOTL + "deepspeed: configs/zero3_cpuoffload.json\n")
    assert (read["plan.zero"], read["plan.offload.params"]) == (3, 1.0)
    assert (read["cluster.devices_per_node"], read["training.framework"]) == (8, "deepspeed")


def test_deepspeed_file_beside_the_launch_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}')
    launch = imported(AXOLOTL + "deepspeed: ds.json\n", file=str(tmp_path / "mine.yaml"))
    assert (launch.fields["plan.zero"], launch.fields["plan.offload.optimizer"]) == (2, 1.0)
    assert "plan.offload.params" not in launch.fields


@pytest.mark.parametrize("line", ["rl: grpo", "reward_model: true", "unfrozen_parameters: ['layers.[0-3]']"])
def test_axolotl_objectives_beyond_one_pass_are_refused(line: str) -> None:
    problems = imported(AXOLOTL + line + "\n").problems
    assert [problem.field for problem in problems] == [line.partition(":")[0]]


def test_pairs_of_answers_are_two_sequences() -> None:
    read = fields(AXOLOTL + "rl: orpo\n")
    assert (read["plan.mbs"], read.get("training.reference_passes")) == (4, None)


def test_preferences_beside_a_reference_model() -> None:
    command = "trl dpo --model_name_or_path Qwen/Qwen2.5-0.5B --use_peft --per_device_train_batch_size 2"
    for read in (
        fields(AXOLOTL + "rl: dpo\n"),
        fields(LLAMA_FACTORY.replace("stage: sft", "stage: dpo").replace("batch_size: 3", "batch_size: 2")),
        fields(command),
        fields(TORCHTUNE.replace("modules.loss.LinearCrossEntropyLoss", "rlhf.loss.DPOLoss")),
    ):
        assert (read["plan.mbs"], read["training.reference_passes"]) == (4, 1)
    for read in (fields(AXOLOTL + "rl: kto\n"), fields(command.replace("dpo", "kto"))):
        assert (read["plan.mbs"], read["training.reference_passes"]) == (2, 3)


def test_llama_factory_dora_on_eight_bits() -> None:
    read = fields(LLAMA_FACTORY)
    lora = {name.rsplit(".", 1)[-1]: value for name, value in read.items() if name.startswith("training.lora.")}
    assert lora == {"rank": 12, "targets": ["q", "k", "v", "proj"], "dora": True, "quantized_base": "int8"}
    assert (read["training.seq_len"], read["training.global_batch"], read["plan.recompute.policy"]) == (1536, 6, "full")


def test_llama_factory_full_tuning_keeps_fp32_weights_unless_pure() -> None:
    full = LLAMA_FACTORY.replace("finetuning_type: lora", "finetuning_type: full").replace("quantization_bit: 8\n", "")
    assert fields(full)["training.framework"] == "ddp"
    assert fields(full + "pure_bf16: true\n")["training.framework"] == "transformers"


def test_llama_factory_rotations() -> None:
    text = LLAMA_FACTORY.replace("finetuning_type: lora", "finetuning_type: oft\noft_block_size: 16\noft_target: all")
    read = fields(text.replace("quantization_bit: 8", "quantization_bit: 4"))
    found = [read[f"training.lora.{name}"] for name in ("rotation_block", "quantized_base")]
    assert (found, read["training.phase"]) == ([16, "nf4"], "lora")


def test_llama_factory_command() -> None:
    command = (
        "#!/bin/bash\nMODEL=Qwen/Qwen3-4B\n"
        "FORCE_TORCHRUN=1 llamafactory-cli train \\\n  --model_name_or_path ${MODEL} --stage sft --do_train \\\n"
        "  --finetuning_type lora --lora_target all --cutoff_len 1024 --bf16 --per_device_train_batch_size 4\n"
    )
    read = fields(command)
    assert (read["model"], read["plan.mbs"], read["training.lora.rank"]) == ("Qwen/Qwen3-4B", 4, 8)


def test_llama_factory_file_that_trains_nothing() -> None:
    text = "model_name_or_path: Qwen/Qwen3-4B\nadapter_name_or_path: saves/mine\ntemplate: qwen3\nexport_dir: out\n"
    (problem,) = imported(text).problems
    assert "trains nothing" in problem.rule


def test_llama_factory_second_generation() -> None:
    text = (
        "model: Qwen/Qwen3-4B\nmodel_class: llm\npeft_config:\n  name: lora\n  r: 6\n  target_modules: all\n"
        "dist_config:\n  name: fsdp2\ntrain_dataset: data.yaml\nmicro_batch_size: 1\ncutoff_len: 2048\n"
    )
    read = fields(text)
    assert (read["training.lora.rank"], read["plan.zero"], read["cluster.devices_per_node"]) == (6, 3, 8)


def test_torchtune_on_four_devices() -> None:
    read = fields(TORCHTUNE)
    expected = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster.devices_per_node": 4,
        "training.framework": "torchtune",
        "training.global_batch": 32,
        "training.lora.targets": ["q", "proj", "gate", "up", "fc2"],
        "training.lora.quantized_base": "nf4",
        "training.fused_cross_entropy": True,
        "plan.zero": 3,
        "plan.offload.activations": 1.0,
    }
    assert {name: read[name] for name in expected} == expected


def test_torchtune_rows_without_a_limit_are_assumed() -> None:
    launch = imported(TORCHTUNE.replace("max_seq_len: 4096", "max_seq_len: null"))
    assert "training.seq_len" in [field for field, _, _ in launch.assumed]
    assert imported(TORCHTUNE, seq_len=640).fields["training.seq_len"] == 640


def test_torchtune_recipe_with_a_second_model() -> None:
    text = TORCHTUNE + "teacher_model:\n  _component_: torchtune.models.llama3_1.llama3_1_70b\n"
    (problem,) = imported(text).problems
    assert problem.field == "teacher_model._component_"


def test_trl_under_accelerate() -> None:
    read = fields(TRL)
    expected = {
        "cluster.devices_per_node": 4,
        "plan.zero": 3,
        "training.framework": "deepspeed",
        "training.seq_len": 2560,
        "training.global_batch": 32,
        "training.lora.rank": 40,
        "training.lora.quantized_base": "nf4",
        "training.lora.dropout": 0.05,
    }
    assert {name: read.get(name) for name in expected} == expected


def test_trl_defaults_of_its_command() -> None:
    read = fields("trl sft --model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name mine/data --use_peft --load_in_4bit\n")
    assert (read["training.seq_len"], read["plan.mbs"], read["training.lora.targets"]) == (1024, 8, ["q", "v"])
    assert read["training.lora.quantized_base"] == "nf4_single"


def test_trl_weights_load_in_fp32_unless_said() -> None:
    command = "trl sft --model_name_or_path Qwen/Qwen2.5-0.5B"
    assert fields(command)["training.framework"] == "ddp"
    assert fields(command + " --dtype bfloat16")["training.framework"] == "transformers"


@pytest.mark.parametrize("trainer", ["ppo", "grpo", "reward", "gkd"])
def test_trl_other_trainers_are_refused(trainer: str) -> None:
    (problem,) = imported(f"trl {trainer} --model_name_or_path Qwen/Qwen2.5-0.5B\n").problems
    assert problem.field == trainer


def test_trl_settings_file_beside_the_command(tmp_path: Path) -> None:
    settings = "model_name_or_path: Qwen/Qwen3-8B\nmax_length: 4096\ngradient_checkpointing: false\n"
    (tmp_path / "sft.yaml").write_text(settings)
    launch = imported("trl sft --config sft.yaml --max_length 512\n", file=str(tmp_path / "run.sh"))
    assert (launch.fields["training.seq_len"], launch.fields["plan.recompute.policy"]) == (512, "none")


def test_accelerate_configuration_names_no_model() -> None:
    (problem,) = imported(ACCELERATE).problems
    assert problem.field == "--model"
    read = fields(ACCELERATE, model="Qwen/Qwen3-8B", seq_len=2048)
    assert (read["cluster.nodes"], read["cluster.devices_per_node"], read["plan.zero"]) == (2, 4, 3)
    assert read["plan.offload.params"] == 1.0


@pytest.mark.parametrize("text", [AXOLOTL, LLAMA_FACTORY, TORCHTUNE, ACCELERATE])
def test_damaged_files_are_one_clear_line(text: str) -> None:
    launch = imported(text + "  - : [\n")
    assert [problem.rule[:11] for problem in launch.problems] == ["is not YAML"]


def test_unknown_models_say_what_to_give() -> None:
    (problem,) = imported(AXOLOTL.replace("NousResearch/Meta-Llama-3-8B", "mine/unheard-of-1b")).problems
    assert "--model names one" in problem.rule


PAGE = """\
# Tuning

```bash
trl sft --model_name_or_path Qwen/Qwen3-8B --max_length 512 --use_peft
```

```bash
trl grpo --model_name_or_path Qwen/Qwen3-8B
```

```yaml
base_model: Qwen/Qwen3-8B
adapter: lora
lora_target_linear: true
sequence_len: 256
micro_batch_size: 1
```
"""


def test_every_block_of_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, out = tmp_path / "page.md", tmp_path / "mine.yaml"
    page.write_text(PAGE)
    command = ["import", str(page), "--block", "all", "--device", "h100-sxm-80gb"]
    assert run([*command, "-o", str(out)]) == 0
    written = sorted(path.name for path in tmp_path.glob("mine*"))
    assert written == ["mine-1.yaml", "mine-3.yaml"]
    assert "--block 2 (line 8) is not read" in " ".join(capsys.readouterr().err.split())
    assert run([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [item["scenario"]["training"]["seq_len"] for item in found] == [512, 256]


def test_a_block_is_a_number_or_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert run(["import", str(page), "--block", "second", "--device", "h100-sxm-80gb"]) == 2
    assert "must be a number from 1, or all" in capsys.readouterr().err
