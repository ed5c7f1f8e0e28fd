"""Launches behind conditions of a shell, shells inside containers, and jobs of several parts."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.importers import formats
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.shell import read_script

WANTED = Wanted(device="h100-sxm-80gb")


def _read(text: str, file: str = "run.sh", **env: str) -> Launch:
    return formats.read(
        formats.detect(text, file), text, file, Wanted(device=WANTED.device, devices_per_node=8, env=env)
    )


def _fields(text: str, file: str = "run.sh", **env: str) -> dict[str, Any]:
    launch = _read(text, file, **env)
    assert not launch.problems, launch.problems
    return launch.fields


@pytest.mark.parametrize(
    ("condition", "tp"),
    [
        ('[[ $SIZE == *"7B"* ]]', 2),
        ("[[ $SIZE == *13B* ]]", 8),
        ('[[ $SIZE == "*7B*" ]]', 8),  # a quoted star is a star
        ("[[ $SIZE != Llama* ]]", 8),
        ("[[ $SIZE =~ ^Llama.*hf$ ]]", 2),
        ("[[ $SIZE =~ ^Qwen ]]", 8),
        ('[[ $SIZE == *7B* && $MODE == "a" ]]', 2),
        ('[[ $SIZE == *7B* && $MODE == "b" ]]', 8),
    ],
)
def test_patterns_of_double_brackets(condition: str, tp: int) -> None:
    text = f"SIZE=Llama-7B-hf\nMODE=a\nif {condition}; then TP=2; else TP=8; fi\nvllm serve Qwen/Qwen3-8B -tp $TP\n"
    assert _fields(text)["serving.pools.0.plan.tp"] == tp


def test_both_parts_of_a_condition_before_a_command_count() -> None:
    script = read_script("A=1\nB=1\nTP=1\n[[ $A == 1 && $B == 2 ]] && TP=8\n[[ $A == 1 && $B == 1 ]] && PP=4\n", {})
    assert [word.text for word in script.variables["TP"]] == ["1"]
    assert [word.text for word in script.variables["PP"]] == ["4"]


BRANCH = """if [ "$DP" = true ]; then
  MORE="--data-parallel-size 8"
elif [ "$EP_SIZE" -gt 1 ]; then
  MORE="--enable-expert-parallel"
else
  MORE=" "
fi
vllm serve Qwen/Qwen3-30B-A3B --tensor-parallel-size 8 $MORE
"""


def test_options_under_a_condition_that_cannot_be_decided_stop_the_import() -> None:
    problems = [str(problem) for problem in _read(BRANCH).problems]
    assert any("--data-parallel-size" in each and "--env DP=" in each for each in problems)
    problems = [str(problem) for problem in _read(BRANCH, DP="false").problems]
    assert any("--enable-expert-parallel" in each and "--env EP_SIZE=" in each for each in problems)
    assert _fields(BRANCH, DP="false", EP_SIZE="1")["serving.pools.0.plan.tp"] == 8
    assert _fields(BRANCH, DP="false", EP_SIZE="8")["serving.pools.0.plan.ep"] == 8


def test_options_that_decide_nothing_or_go_nowhere_stop_no_import() -> None:
    text = 'if [ "$X" = 1 ]; then LOG="--log-level info"; BENCH="--max-model-len 5"; fi\n'
    assert _fields(f"{text}vllm serve Qwen/Qwen3-8B $LOG\n")["model"]


def test_continued_lines_of_a_quoted_script() -> None:
    text = """TP=2
srun --ntasks=1 bash -c "vllm serve Qwen/Qwen3-8B \\
    --tensor-parallel-size $TP \\
    --max-model-len 8192 \\
    --max-num-seqs 64"
"""
    fields = _fields(text)
    assert fields["serving.pools.0.plan.tp"] == 2
    assert fields["serving.pools.0.limits.max_model_len"] == 8192


def test_a_script_that_a_container_runs() -> None:
    text = """docker exec trainer bash -c "
NPROC_PER_NODE=8 swift sft \\
  --model Qwen/Qwen3-8B --train_type full --fsdp '{\\"fsdp\\": \\"full_shard auto_wrap\\"}' \\
  --sequence_parallel_size 2 --max_length 8192 --per_device_train_batch_size 1
"
"""
    fields = _fields(text)
    assert (fields["plan.cp"], fields["plan.zero"], fields["training.seq_len"]) == (2, 3, 8192)
    assert fields["cluster.devices_per_node"] == 8


def test_dollars_of_compose() -> None:
    text = """services:
  vllm:
    image: vllm/vllm-openai:v0.10.0
    environment:
      - QUANT=fp8
    entrypoint: ["/bin/bash", "-c"]
    command:
      - |
        vllm serve Qwen/Qwen3-8B --quantization $${QUANT} --max-model-len $${LEN}
"""
    fields = _fields(text, "compose.yaml", LEN="8192")
    assert fields["serving.precision.weights"] == "fp8"
    assert fields["serving.pools.0.limits.max_model_len"] == 8192


def test_start_command() -> None:
    text = """docker_server:
  start_command: sh -c "vllm serve Qwen/Qwen3-8B --max-model-len 16384 --tensor-parallel-size $GPU_COUNT"
resources:
  accelerator: H100:2
"""
    assert any("--env GPU_COUNT" in str(problem) for problem in _read(text, "config.yaml").problems)
    fields = _fields(text, "config.yaml", GPU_COUNT="2")
    assert fields["serving.pools.0.plan.tp"] == 2
    assert fields["serving.pools.0.limits.max_model_len"] == 16384


def test_parts_of_a_training_job_add_up() -> None:
    part = """      replicas: {}
      template:
        spec:
          containers:
            - name: pytorch
              image: image
              resources: {{limits: {{nvidia.com/gpu: 8}}}}
              command: ["torchrun", "--nproc_per_node=8", "train.py", "--hidden_width=4096", "--num_layers=32",
                "--num_heads=32", "--intermediate_size=11008", "--max_context_width=4096", "--train_batch_size=1",
                "--model_type=llama_v2", "--sharding_strategy=full"]
"""
    text = "kind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n"
    text += f"    Master:\n{part.format(1)}    Worker:\n{part.format(3)}"
    fields = _fields(text, "job.yaml")
    assert (fields["cluster.nodes"], fields["cluster.devices_per_node"]) == (4, 8)


def test_the_workers_of_an_entry_are_no_second_server() -> None:
    container = """spec:
            containers:
              - name: engine
                image: vllm/vllm-openai:v0.11.0
                command: ["sh", "-c", "vllm serve Qwen/Qwen3-30B-A3B --data-parallel-size 2 --enable-expert-parallel"]
                resources: {limits: {nvidia.com/gpu: 2}}
"""
    text = f"""kind: ModelServing
spec:
  replicas: 1
  template:
    roles:
      - name: mixed
        replicas: 1
        entryTemplate:
          {container}        workerReplicas: 1
        workerTemplate:
          {container}"""
    fields = _fields(text, "serving.yaml")
    assert fields["serving.pools.0.plan.dp"] == 2
    assert fields.get("serving.pools.0.replicas", 1) == 1


@pytest.mark.parametrize(("size", "tp"), [("7b", "1"), ("13b", "2"), ("14b", "2"), ("405b", "8"), ("x", "4")])
def test_the_branch_of_a_case(size: str, tp: str) -> None:
    text = f"""SIZE={size}
case "$SIZE" in
  7b) TP=1 ;;
  13b|14b)
    if [ 1 -eq 1 ]; then TP=2; fi
    ;;
  405*) TP=8;;
  none) ;;
  *) TP=4
esac
vllm serve Qwen/Qwen3-8B -tp $TP
"""
    script = read_script(text, {})
    assert [word.text for word in script.variables["TP"]] == [tp]
    assert [word.text for word in script.commands[-1]][-1] == tp
    assert not script.notes


def test_a_loop_over_known_values_and_a_text_in_parts() -> None:
    text = """ALL=("2,4,True" "8,1,False")
for ONE in "${ALL[@]}"; do
  IFS=',' read -r TP PP SP <<< "$ONE"
  CMD="run --pad=$([ "$TP" -gt 1 ] && echo 4 || echo 1) --tp $TP"
  bash -c "$CMD --pp $PP"
done
"""
    assert read_script(text, {}).commands == []
    script = read_script(text, {}, once=True)
    assert [word.text for word in script.variables["PP"]] == ["4"]
    assert script.commands[0][-1].text.endswith("--tp 2 --pp 4")
    assert "first, 2,4,True" in script.notes[0][2]


def test_a_service_of_kserve_for_language_models() -> None:
    text = """kind: LLMInferenceService
spec:
  model: {uri: "hf://Qwen/Qwen3-8B", name: qwen}
  replicas: 3
  parallelism: {tensor: 2}
  template:
    containers:
      - name: main
        env:
          - {name: VLLM_ADDITIONAL_ARGS, value: --max-model-len 8192 --max-num-seqs 64}
        resources: {limits: {nvidia.com/gpu: "2"}}
  prefill:
    parallelism: {tensor: 4}
    template:
      containers:
        - name: main
          resources: {limits: {nvidia.com/gpu: "4"}}
"""
    fields = _fields(text, "service.yaml")
    assert fields["model"] == "Qwen/Qwen3-8B"
    roles = {fields[f"serving.pools.{i}.role"]: fields[f"serving.pools.{i}.plan.tp"] for i in (0, 1)}
    assert roles == {"decode": 2, "prefill": 4}
    assert fields["serving.pools.0.replicas"] == 3
    assert fields["serving.pools.0.limits.max_num_seqs"] == 64


def test_the_size_of_a_group() -> None:
    text = """kind: LeaderWorkerSet
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        containers:
          - name: leader
            image: lmsysorg/sglang:latest
            command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-32B, --tp, "16", --nnodes,
              $(LWS_GROUP_SIZE), --node-rank, $(LWS_WORKER_INDEX)]
            resources: {limits: {nvidia.com/gpu: "8"}}
"""
    fields = _fields(text, "group.yaml")
    assert (fields["cluster.nodes"], fields["serving.pools.0.plan.tp"]) == (2, 16)


@pytest.mark.parametrize(
    "more", ["with_tracking: true\nadd_bos: true\nbeta: 0.1", "dataset_mixer: {a: 1.0}\nexp_name: x\ndpo_beta: 0.1"]
)
def test_preferences_of_open_instruct(more: str) -> None:
    text = f"model_name_or_path: allenai/OLMo-2-1124-7B\nmax_seq_length: 4096\nper_device_train_batch_size: 1\n{more}\n"
    launch = _read(text, "dpo.yaml")
    assert launch.format == "open_instruct"
    assert launch.fields["training.reference_passes"] == 1


def test_a_teacher_beside_the_model_of_automodel() -> None:
    text = """recipe: KnowledgeDistillationRecipeForNextTokenPrediction
step_scheduler: {global_batch_size: 16, local_batch_size: 1}
model: {_target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained, pretrained_model_name_or_path: Qwen/Qwen3-4B}
teacher_model: {_target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained,
  pretrained_model_name_or_path: Qwen/Qwen3-8B}
"""
    assert any("distillation" in problem.rule for problem in _read(text, "kd.yaml").problems)
