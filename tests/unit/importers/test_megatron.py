"""Megatron-LM scripts become scenarios: what shell says, what flags mean, what is left out."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from windtunnel.cli.main import run
from windtunnel.importers import formats, megatron
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.megatron_model import layer_pattern
from windtunnel.importers.megatron_plan import layout_counts
from windtunnel.importers.shell import read_script
from windtunnel.scenarios.load import load_scenario
from windtunnel.scenarios.read import parse_mapping

LLAMA_70B = """\
#!/bin/bash
TP=8
PP=${PP:-4}
NODES=8
DIST=(
  --nproc-per-node 8   # one a device
  --nnodes $NODES
)
MODEL=(
    --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64
    --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm --disable-bias-linear
    --untie-embeddings-and-output-weights --position-embedding-type rope --max-position-embeddings 8192
    --seq-length 8192 --vocab-size 128256 --attention-dropout 0.0 --hidden-dropout 0.0
    # --fp8-format hybrid
)
OPT="--lr 1e-4 --bf16 \\
   --micro-batch-size 1 --global-batch-size $((NODES * 8 * 4)) \\
   --no-such-flag 3"
if [ "$TP" -gt 1 ]; then
  OPT="$OPT --sequence-parallel"
fi
torchrun ${DIST[@]} pretrain_gpt.py "${MODEL[@]}" $OPT \\
   --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size $PP \\
   --num-layers-per-virtual-pipeline-stage 5 --use-distributed-optimizer \\
   --overlap-grad-reduce --recompute-activations --load /ckpt --nccl-ub
"""

SMALL = (
    "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --micro-batch-size 1 --bf16 "
    "--vocab-size 32000 --nnodes 1 --nproc-per-node 8 --global-batch-size 64 "
)


def read(text: str, **wanted: Any) -> Launch:
    return megatron.read(text, "train.sh", Wanted(**{"device": "h100-sxm-80gb"} | wanted))


def plan_of(extra: str) -> dict[str, Any]:
    launch = read(SMALL + extra)
    assert launch.problems == []
    plan: dict[str, Any] = launch.scenario()["plan"]
    return plan


def test_a_script_becomes_the_scenario_that_it_launches() -> None:
    launch = read(LLAMA_70B)
    assert launch.problems == []
    scenario = launch.scenario()
    assert scenario["model"] == "meta-llama/Llama-3.1-70B"
    assert scenario["cluster"] == {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8}
    training, plan = scenario["training"], scenario["plan"]
    assert (training["seq_len"], training["global_batch"], training["precision"]) == (8192, 256, "bf16")
    assert "dropout" not in training
    assert (plan["tp"], plan["sp"], plan["pp"], plan["vpp"], plan["zero"], plan["mbs"]) == (8, True, 4, 4, 1, 1)
    assert plan["recompute"] == {"policy": "selective"}
    assert plan["overlap"] == {"grad_reduce": True, "param_gather": False}


def test_what_was_not_read_is_listed_with_its_line() -> None:
    launch = read(LLAMA_70B)
    unread = {left.name: left for left in launch.unread}
    assert set(unread) == {"--no-such-flag", "--nccl-ub"}
    assert "unknown option" in unread["--no-such-flag"].why
    assert unread["--nccl-ub"].line == LLAMA_70B[: LLAMA_70B.index("--nccl-ub")].count("\n") + 1
    assert {left.name for left in launch.ignored} == {"--lr", "--load"}
    assert ("$PP", "4", "not set in the script; its own default, line 3") in launch.assumed
    assert "--fp8-format" not in launch.text()


def test_the_written_file_is_the_same_scenario() -> None:
    launch = read(LLAMA_70B)
    assert parse_mapping(launch.text(), "x.yaml") == launch.scenario()
    assert load_scenario(launch.scenario()).plan.tp == 8
    line = LLAMA_70B[: LLAMA_70B.index("--tensor-model")].count("\n") + 1
    assert f"# --tensor-model-parallel-size, line {line}\n" in launch.text()


def test_dimensions_without_a_catalogue_entry_are_spelled_out() -> None:
    model = read(SMALL).scenario()["model"]
    assert (model["hidden_size"], model["intermediate_size"], model["gated_mlp"]) == (512, 2048, False)
    assert (model["norm"], model["position_embedding"]) == ("layernorm", "learned")
    assert model["tie_word_embeddings"] is True
    gated = read(SMALL + "--swiglu").scenario()["model"]
    assert gated["intermediate_size"] == 512 * 8 // 3 // 64 * 64


def test_mixtures() -> None:
    launch = read(
        SMALL + "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 256 --expert-model-parallel-size 4 "
        "--tensor-model-parallel-size 2 --sequence-parallel --moe-layer-freq '([0]*1+[1]*7)' "
        "--moe-shared-expert-intermediate-size 512 --moe-token-dispatcher-type flex --moe-enable-deepep"
    )
    assert launch.problems == []
    scenario = launch.scenario()
    model = scenario["model"]
    assert (model["num_experts"], model["num_experts_per_tok"], model["moe_intermediate_size"]) == (8, 2, 256)
    assert (model["first_k_dense_replace"], model["n_shared_experts"], model["family"]) == (1, 2, "moe")
    assert scenario["training"]["moe_dispatcher"] == "deepep"
    assert (scenario["plan"]["ep"], scenario["plan"]["etp"]) == (4, 2)


def test_layer_patterns_and_layouts() -> None:
    assert layer_pattern("([0]*3+[1]*58)", 61) == (3, 1)
    assert layer_pattern("[0,1]*4", 8) == (0, 2)
    assert layer_pattern("[1,1,0]*2", 6) is None
    assert layout_counts("Et*3|(tt|)*29,m|L") == [3, *[2] * 29, 0, 0]
    assert layout_counts("Ex|L") is None


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params", "zero", 3),
        ("", "zero", 0),
        ("--use-distributed-optimizer --num-distributed-optimizer-instances 2", "shard_group", 4),
        ("--context-parallel-size 4 --cp-comm-type a2a", "cp_kind", "all_to_all"),
        (
            "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1 "
            "--decoder-last-pipeline-num-layers 1",
            "stage_layers",
            [1, 3, 3, 1],
        ),
        (
            "--recompute-granularity full --recompute-method block --recompute-num-layers 3",
            "recompute",
            {"policy": "full", "num_layers": 3},
        ),
        (
            "--recompute-granularity selective --recompute-modules core_attn layernorm",
            "recompute",
            {"policy": "modules", "modules": ["core_attn", "norm"]},
        ),
        ("--optimizer-cpu-offload --optimizer-offload-fraction 0.5", "offload", {"optimizer": 0.5}),
        ("--use-tp-pp-dp-mapping", "order", ["tp", "cp", "ep", "pp", "dp"]),
    ],
)
def test_plan_options(flags: str, field: str, value: Any) -> None:
    assert plan_of(flags)[field] == value


def test_unknown_values_are_all_named_at_once() -> None:
    launch = read("--num-layers $LAYERS --hidden-size 512 --bf16 --micro-batch-size x", device=None)
    lines = [str(problem) for problem in launch.problems]
    for start in (
        "--device",
        "--nodes",
        "--num-layers = $LAYERS",
        "--num-attention-heads",
        "--vocab-size",
        "--seq-length",
        "--micro-batch-size = x",
    ):
        assert any(line.startswith(start) for line in lines), start
    assert "--env LAYERS=" in "".join(lines)
    known = read("--num-layers $LAYERS --hidden-size 512 --bf16", env={"LAYERS": "4"})
    assert not any("--num-layers" in str(problem) for problem in known.problems)


def test_shell_conditions_loops_and_heredocs() -> None:
    script = read_script(
        "A=1\nif [[ $A == 2 ]]; then B=no; elif [ $A -eq 1 ] && [ -n x ]; then B=yes; else B=never; fi\n"
        "if [ -f /tmp/x ]; then C=1; fi\nfor i in 1 2; do D=$i; done\ncat <<EOF\nE=1\nEOF\n"
        '[ $A = 1 ] && F=\'one two\' || F=none\nL=(a "b c")\nL+=(d)\nrun "${L[@]}" $F > log 2>&1\n',
        {},
    )
    values = {name: " ".join(word.text for word in words) for name, words in script.variables.items()}
    assert values == {"A": "1", "B": "yes", "F": "one two", "L": "a b c d"}
    assert [(what, line) for what, line, _ in script.notes] == [("if", 3), ("for", 4)]
    assert [word.text for word in script.commands[-1]] == ["run", "a", "b c", "d", "one", "two"]


def test_lines_stay_when_a_variable_is_extended() -> None:
    script = read_script('A="--x 1\n--y 2"\nA="$A --z 3"\nif [ -f a ]; then echo no; exit 1; fi\nrun $A', {})
    assert [(word.text, word.line) for word in script.commands[-1]] == [
        ("run", 5),
        ("--x", 1),
        ("1", 1),
        ("--y", 2),
        ("2", 2),
        ("--z", 3),
        ("3", 3),
    ]
    assert script.notes == []


def test_shell_defaults_declarations_and_arithmetic() -> None:
    script = read_script(
        ': "${A:=4}"\ndeclare -a L=(--x $A)\nif [ "$A" ]; then B=$((A * 2 - 1)); fi\nC="\\N"\n'
        "D=$((C + 1))\nrun ${L[@]} $B $D",
        {},
    )
    assert [word.text for word in script.commands[-1]] == ["run", "--x", "4", "7", "$((C", "+", "1))"]
    assert script.defaults == [("A", "4", 1)]


def test_what_an_unset_variable_adds_is_said() -> None:
    launch = read(SMALL + '--swiglu $MORE --lr 1e-4 $EXTRA "$@"')
    assert [left.name for left in launch.unread] == ["$EXTRA", "$@", "$MORE"]
    assert read(SMALL + "$MORE", env={"MORE": "--swiglu --disable-bias-linear"}).unread == []
    launch = read(SMALL, seq_len=2048, mbs=2, global_batch=128)
    assert (launch.unread, launch.fields["training.seq_len"], launch.fields["plan.mbs"]) == ([], 2048, 2)


def test_slurm_scripts_that_start_a_shell() -> None:
    launch = read(
        "#SBATCH -N 16\n#SBATCH --gpus-per-node=8\n"
        'options=" \\\n --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 \\\n'
        " --max-position-embeddings 2048 --micro-batch-size 2 --global-batch-size 256 "
        '--tokenizer-type GPT2BPETokenizer"\n'
        'run_cmd="cd ${DIR} && python -u ${DIR}/pretrain_gpt.py ${options}"\n'
        'srun -l --output=x.log sh -c "${run_cmd}"\n'
    )
    assert launch.problems == []
    assert launch.scenario()["model"] == "openai/gpt3-6.7b"
    assert launch.scenario()["cluster"]["nodes"] == 16
    longer = read(SMALL.replace("--seq-length 1024", "--seq-length 1024 --max-position-embeddings 1024"))
    assert longer.scenario()["model"]["max_position_embeddings"] == 1024
    other = read(SMALL.replace("--num-layers", "python pretrain_t5.py --num-layers", 1))
    assert "another kind of model" in str(other.problems[0])


def test_sizes_come_from_slurm_too() -> None:
    script = "#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8\n" + SMALL.replace("--nnodes 1 --nproc-per-node 8 ", "")
    assert read(script).scenario()["cluster"] == {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8}
    assert read(script, nodes=2).scenario()["cluster"]["nodes"] == 2


def test_formats_are_told_apart() -> None:
    assert formats.detect(LLAMA_70B, "x") == "megatron"
    assert formats.detect('{"model_type": "llama", "hidden_size": 64}', "x") == "hf"


def test_the_verb_writes_a_scenario_that_train_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, out = tmp_path / "run.sh", tmp_path / "out.yaml"
    script.write_text(SMALL + "--tensor-model-parallel-size 2 --wrong-flag")
    assert run(["import", str(script), "--device", "h100-sxm-80gb", "-o", str(out), "--json"]) == 0
    said = capsys.readouterr()
    data = json.loads(said.out)
    assert data["format"] == "megatron"
    assert data["unread"][0]["name"] == "--wrong-flag"
    assert "not read (1): --wrong-flag (line 1): unknown option" in " ".join(said.err.split())
    assert run(["train", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step_time_s"] > 0


def test_a_line_of_flags_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(SMALL))
    assert run(["import", "-", "--device", "h100-sxm-80gb"]) == 0
    scenario = parse_mapping(capsys.readouterr().out, "x.yaml")
    assert (scenario["model"]["name"], scenario["training"]["seq_len"]) == ("model", 1024)
    assert run(["import", "-", "--env", "X"]) == 2


def test_bad_scripts_exit_2_with_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "run.sh"
    script.write_text(SMALL + "\\\n--tensor-model-parallel-size 3 --pipeline-model-parallel-size 5")
    assert run(["import", str(script), "--device", "h100-sxm-80gb"]) == 2
    said = capsys.readouterr().err
    assert "plan.tp = 3: must divide num_attention_heads 8" in said
    assert f"{script}:2" in said
    script.write_text("hello")
    assert run(["import", str(script)]) == 2
    assert "--format" in capsys.readouterr().err


_LAUNCH = "torchrun --nproc_per_node 8 --nnodes 1 pretrain_{}.py --micro-batch-size 1 --global-batch-size 32 --bf16 "
_SMALL = "--hidden-size 512 --num-attention-heads 8 --max-position-embeddings 512 "


@pytest.mark.parametrize(
    ("script", "family", "vocabulary"),
    [
        ("gpt|--num-layers 4 --seq-length 512 --vocab-file v.json --merge-file m.txt", "dense", 50257),
        ("gpt|--num-layers 4 --seq-length 512 --tokenizer-type Llama2Tokenizer --tokenizer-model t", "dense", 32000),
        ("gpt|--num-layers 4 --seq-length 512 --tokenizer-type TikTokenizer", "dense", 131072),
        ("bert|--num-layers 4 --seq-length 512 --vocab-file bert.txt", "encoder", 30522),
        (
            "t5|--encoder-num-layers 2 --decoder-num-layers 3 --encoder-seq-length 512 --decoder-seq-length 128 "
            "--vocab-file v --tokenizer-type BertWordPieceCase",
            "encoder_decoder",
            28996,
        ),
        (
            "hybrid|--hybrid-layer-pattern M-M*-M- --seq-length 512 --tokenizer-type GPTSentencePieceTokenizer",
            "hybrid",
            256000,
        ),
    ],
)
def test_models_and_tokenizers_of_the_examples(script: str, family: str, vocabulary: int) -> None:
    from windtunnel.training import predict

    program, flags = script.split("|")
    text = _LAUNCH.format(program) + _SMALL + flags
    launch = formats.read("megatron", text, "train.sh", Wanted(device="h100-sxm-80gb"))
    assert launch.problems == []
    scenario = launch.scenario()
    assert (scenario["model"]["family"], scenario["model"]["vocab_size"]) == (family, vocabulary)
    assert scenario["training"].get("decoder_seq_len") == (128 if family == "encoder_decoder" else None)
    predict.prepare(scenario)


def test_a_multimodal_training_names_its_language_model() -> None:
    text = (
        "torchrun --nproc_per_node 8 --nnodes 1 examples/multimodal/train.py --micro-batch-size 1 --bf16 "
        "--global-batch-size 32 --seq-length 1024 --language-model-type mistral_7b --vision-model-type clip "
        "--tensor-model-parallel-size 4 --tokenizer-type MultimodalTokenizer --tokenizer-model x"
    )
    launch = formats.read("megatron", text, "train.sh", Wanted(device="h100-sxm-80gb"))
    assert launch.problems == [] and launch.scenario()["model"] == "mistralai/Mistral-7B-v0.1"
    assert any("vision tower" in left.why for left in launch.unread)


def test_the_else_of_an_undecided_condition_stands_in() -> None:
    script = read_script('if [ "$(f "$X")" = a ]; then\n N=4\nelse\n export N=${N:-8}\nfi\nrun --n $N\n', {})
    assert [[word.text for word in words] for words in script.commands] == [["run", "--n", "8"]]
    assert ("N", "8", 6) in script.defaults


def test_a_variable_tested_for_being_set_counts_as_not_set() -> None:
    script = (
        "if [ -z ${HF_MODEL_CKPT} ]; then\n  HF_MODEL_CKPT=Qwen/Qwen3-0.6B\n  TOKENIZER_MODEL=Qwen/Qwen3-0.6B\nfi\n"
        'MODEL_ARGS=" --num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 \\\n'
        '  --micro-batch-size 1 --tokenizer-type HuggingFaceTokenizer --global-batch-size 8"\n'
    )
    launch = read(script, nodes=1)
    assert launch.scenario()["model"]["vocab_size"] == 151936
    assert "$HF_MODEL_CKPT" in [field for field, _, _ in launch.assumed]


def test_vocabulary_of_a_model_provider() -> None:
    flags = (
        "torchrun train.py --num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 "
        "--micro-batch-size 1 --global-batch-size 8 --tokenizer-type HuggingFaceTokenizer "
        "--tokenizer-model llava-hf/llava-1.5-7b-hf --model-provider llava_vlm"
    )
    assert read(flags, nodes=1).scenario()["model"]["vocab_size"] == 32256


@pytest.mark.parametrize(
    ("device", "flags", "precision"),
    [
        ("a100-sxm-80gb", "--bf16 --fp8-format hybrid", "bf16"),
        ("h100-sxm-80gb", "--bf16 --fp4-format e2m1", "fp8"),
        ("h100-sxm-80gb", "--bf16 --fp8-format e4m3 --fp8-recipe mxfp8", "fp8"),
        ("h100-sxm-80gb", "--bf16 --fp8-format hybrid", "fp8"),
        ("b200-sxm-180gb", "--bf16 --fp4-format e2m1", "nvfp4"),
    ],
)
def test_a_precision_without_units_is_narrowed_with_a_warning(device: str, flags: str, precision: str) -> None:
    launch = formats.read("megatron", LLAMA_70B.replace("--bf16", flags), "train.sh", Wanted(device=device))
    assert not launch.problems, launch.problems
    assert launch.fields["training.precision"] == precision
    said = [why for field, _, why in launch.assumed if field == "training.precision"]
    asked = {"hybrid": "fp8", "e2m1": "nvfp4", "mxfp8": "mxfp8"}[flags.rpartition(" ")[2]]
    assert bool(said) == (precision != asked)
    assert all("matrix units" in why for why in said)


@pytest.mark.parametrize("padded", [True, False])
def test_a_capacity_is_filled_up_only_where_the_script_says_so(padded: bool) -> None:
    switch = "--moe-pad-expert-input-to-capacity " * padded
    launch = read(SMALL + "--num-experts 8 --moe-ffn-hidden-size 256 --moe-expert-capacity-factor 1.5 " + switch)
    assert (launch.problems, launch.unread) == ([], [])
    model = launch.scenario()["model"]
    assert (model["capacity_factor"], model["moe_pad_expert_input_to_capacity"]) == (1.5, padded)


_MISTRAL_SIZES = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 8 "
    "--seq-length 8192 --micro-batch-size 1 --bf16 --nnodes 1 --nproc-per-node 8 --global-batch-size 64 "
    "--normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear "
    "--position-embedding-type rope "
)


def test_facts_of_a_public_model_beat_switches_that_the_script_lacks() -> None:
    text = _MISTRAL_SIZES + "--ffn-hidden-size 14336 --tokenizer-type Llama2Tokenizer --tokenizer-model t"
    launch = read(text)
    assert (launch.problems, launch.scenario()["model"]) == ([], "mistralai/Mistral-7B-v0.1")
    said = {field: why for field, _, why in launch.assumed}
    assert "no --swiglu" in said["model.gated_mlp"] and "states no window" in said["model.sliding_window"]
    own = read(text.replace("14336", "11008")).scenario()["model"]
    assert (own["gated_mlp"], "sliding_window" in own) == (False, False)


def test_a_vocabulary_is_that_of_the_public_models_with_these_sizes() -> None:
    sizes = _MISTRAL_SIZES.replace("4096", "5120").replace("--num-layers 32", "--num-layers 40") + "--swiglu "
    named = read(sizes + "--ffn-hidden-size 14336 --kv-channels 128")
    assert (named.problems, named.scenario()["model"]) == ([], "mistralai/Mistral-Nemo-Base-2407")
    several = read(_MISTRAL_SIZES + "--swiglu --ffn-hidden-size 14336")  # Mistral's, Llama 3's and more
    assert [p.field for p in several.problems] == ["--vocab-size"]


def test_positional_parameters_from_the_tenth_on_stand_in_braces() -> None:
    script = "python pretrain_gpt.py --num-layers ${12} --hidden-size $12\n"
    (command,) = read_script(script, {"12": "32", "1": "409"}).commands
    assert [word.text for word in command][-3:] == ["32", "--hidden-size", "4092"]


UNDERSCORED = """torchrun --nproc_per_node 8 --nnodes 2 finetune.py --num_layers 32 --hidden_size 4096 \\
  --num_attention_heads 32 --micro_batch_size 1 --global_batch_size 64 --seq_length 2048 --vocab_size 50257 \\
  --max_position_embeddings 2048 --normalization rmsnorm --tensor_model_parallel_size 2 --bf16 \\
  --position_embedding_type alibi"""


def test_options_of_forks_with_underscores() -> None:
    launch = formats.read(formats.detect(UNDERSCORED, "a.sh"), UNDERSCORED, "a.sh", Wanted(device="h100-sxm-80gb"))
    assert not launch.problems
    assert launch.format == "megatron"
    assert (launch.fields["plan.tp"], launch.fields["training.seq_len"], launch.fields["plan.mbs"]) == (2, 2048, 1)
    assert (launch.fields["cluster.nodes"], launch.fields["model.norm"]) == (2, "rmsnorm")
    assert launch.fields["model.position_embedding"] == "alibi"


def test_distillation_is_no_pretraining() -> None:
    text = f"{UNDERSCORED} --kd --kd-beta-ce 1"
    launch = formats.read("megatron", text, "a.sh", Wanted(device="h100-sxm-80gb"))
    assert any("distillation" in problem.rule for problem in launch.problems)
    launch = formats.read("megatron", text, "a.sh", Wanted(device="h100-sxm-80gb", without=("distillation",)))
    assert not launch.problems


def test_a_table_of_options() -> None:
    text = """ENV_VARS:
  X: 1
MODEL_ARGS:
  --num-layers: 32
  --hidden-size: 4096
  --num-attention-heads: 32
  --group-query-attention: true
  --num-query-groups: 8
  --micro-batch-size: 2
  --global-batch-size: 8
  --seq-length: 8192
  --max-position-embeddings: 8192
  --vocab-size: 131073
  --tensor-model-parallel-size: 4
  --sequence-parallel: false
  --load: ${CHECKPOINT_LOAD_PATH}
  --bf16: true
TEST_TYPE: regular
"""
    launch = formats.read(formats.detect(text, "a.yaml"), text, "a.yaml", Wanted(device="h100-sxm-80gb", nodes=1))
    assert not launch.problems
    assert (launch.fields["plan.tp"], launch.fields["plan.mbs"], launch.fields["plan.sp"]) == (4, 2, False)
    assert (launch.fields["model.num_hidden_layers"], launch.origin["plan.tp"][1]) == (32, 14)
