"""Lines that launch recipes of Megatron-Bridge: the name, the cluster and what they override."""

from __future__ import annotations

from windtunnel.importers import formats
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.megatron_bridge import read_recipe
from windtunnel.scenarios.load import load_scenario

LONG = """docker run nvcr.io/nvidia/nemo:26.06
./scripts/training/train.sh --nodes 2 --gpus-per-node 8 --recipe qwen3_30b_a3b_sft_8gpu_h100_bf16_config --mode sft \\
  --seq_length 32768 --context_parallel_size 2 model.cp_comm_type=a2a model.recompute_granularity=full \\
  model.sequence_parallel=true model.moe_flex_dispatcher_backend=hybridep 'dataset.hf_dataset.split="train[:10000]"'
"""


def read(text: str) -> Launch:
    kind = formats.detect(text, "launch.sh")
    assert kind == "megatron_bridge"
    return formats.read(kind, text, "launch.sh", Wanted())


def test_a_recipe_and_its_overrides_become_a_scenario() -> None:
    launch = read(LONG)
    assert not launch.problems
    found = launch.fields
    assert found["training.recipe"] == "qwen3_30b_a3b_sft_8gpu_h100_bf16_config"
    assert (found["cluster.device"], found["cluster.nodes"], found["cluster.devices_per_node"]) == (
        "h100-sxm-80gb",
        2,
        8,
    )
    assert (found["plan.cp"], found["plan.cp_kind"], found["plan.sp"]) == (2, "all_to_all", True)  # tp is the recipe's
    assert (found["training.moe_dispatcher"], found["training.framework_version"]) == ("hybridep", "26.06")
    scenario = load_scenario(launch.scenario())
    assert scenario.training is not None and scenario.training.phase == "sft"
    assert (scenario.training.seq_len, scenario.plan.recompute.policy, scenario.plan.cp) == (32768, "full", 2)


def test_a_setting_to_nothing_switches_off() -> None:
    launch = read(LONG.replace("granularity=full", "granularity=null").replace("backend=hybridep", "backend=null"))
    scenario = load_scenario(launch.scenario())
    assert scenario.training is not None
    assert (scenario.plan.recompute.policy, scenario.training.moe_dispatcher) == ("none", "alltoall")


def test_launchers_that_take_a_model_a_device_and_a_precision() -> None:
    performance = (
        "python scripts/performance/setup_experiment.py -m deepseek -mr deepseek_v3 -g gb200 -c fp8_mx -ng 256 -gb 4096"
    )
    launch = read(performance)
    assert launch.fields["training.recipe"] == "deepseek_v3_pretrain_256gpu_gb200_fp8mx_config"
    assert (launch.fields["cluster.nodes"], launch.fields["cluster.devices_per_node"]) == (64, 4)
    assert launch.fields["training.global_batch"] == 4096
    library = read(
        "torchrun --nproc_per_node=8 scripts/training/run_recipe.py --model gpt_oss_20b --mode lora peft.dim=8"
    )
    assert library.fields["training.recipe"] == "gpt_oss_20b_peft_config"
    assert (library.fields["training.lora.rank"], library.fields["cluster.devices_per_node"]) == (8, 8)


def test_an_unknown_recipe_has_a_neighbour() -> None:
    launch = read("./train.sh --recipe qwen3_30b_a3b_pretrain_8gpu_gb300_fp8_config --mode pretrain")
    (problem,) = launch.problems
    assert problem.nearest == "qwen3_30b_a3b_pretrain_8gpu_gb300_fp8mx_config"


def test_a_commit_chooses_the_record() -> None:
    text = "train.sh --recipe qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config"
    before = load_scenario(read_recipe(text, "f", Wanted(), "2026-07-18").scenario())
    now = load_scenario(read_recipe(text, "f", Wanted()).scenario())
    assert (before.plan.overlap.moe_a2a, now.plan.overlap.moe_a2a) == (False, True)


def test_the_count_of_devices_chooses_the_nearest_recipe() -> None:
    line = "python scripts/performance/setup_experiment.py -m deepseek -mr deepseek_v3 -g gb200 -c fp8_mx"
    assert read(f"{line} -ng 256").fields["training.recipe"] == "deepseek_v3_pretrain_256gpu_gb200_fp8mx_config"
    assert read(f"{line} -ng 250").fields["training.recipe"] == "deepseek_v3_pretrain_256gpu_gb200_fp8mx_config"
    assert read(line).fields["training.recipe"] == "deepseek_v3_pretrain_256gpu_gb200_fp8mx_config"


def test_a_release_that_the_caller_states_wins_over_the_container() -> None:
    text = "docker run nvcr.io/nvidia/nemo:26.06\ntrain.sh --recipe qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config"
    assert read_recipe(text, "f", Wanted()).fields["training.framework_version"] == "26.06"
    assert read_recipe(text, "f", Wanted(), "2026-07-18").fields["training.framework_version"] == "2026-07-18"


SLURM = """#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
MODEL_NAME=llama3_8b
CONFIGS=("2,1,True" "4,2,True")
for CONFIG in "${CONFIGS[@]}"; do
    IFS=',' read -r TP CP SP <<< "$CONFIG"
    OVERRIDES="\\
        train.global_batch_size=64 \\
        model.tensor_model_parallel_size=$TP \\
        model.context_parallel_size=$CP"
    CMD="python scripts/training/run_recipe.py"
    CMD="$CMD --recipe ${MODEL_NAME}_pretrain_config"
    CMD="$CMD $OVERRIDES"
    srun --mpi=pmix bash -c "$CMD"
done
"""


def test_a_recipe_in_a_loop_over_layouts() -> None:
    launch = formats.read(formats.detect(SLURM, "a.sh"), SLURM, "a.sh", Wanted())
    assert not launch.problems
    assert launch.fields["training.recipe"] == "llama3_8b_pretrain_config"
    assert (launch.fields["plan.tp"], launch.fields["plan.cp"]) == (2, 1)
    assert (launch.fields["cluster.nodes"], launch.fields["cluster.devices_per_node"]) == (2, 8)


def test_a_recipe_whose_name_the_script_takes_from_outside() -> None:
    text = SLURM.replace("${MODEL_NAME}_pretrain_config", "$RECIPE_NAME")
    launch = formats.read("megatron_bridge", text, "a.sh", Wanted())
    assert "--env RECIPE_NAME" in str(launch.problems[0])


def test_processes_of_torchrun_go_before_the_devices_of_the_recipe() -> None:
    text = "torchrun --nproc_per_node=1 scripts/performance/run_script.py --model_family_name llama "
    text += "--model_recipe_name llama3_8b --task pretrain -g h100 -c bf16 -ng 1"
    launch = formats.read(formats.detect(text, "a.sh"), text, "a.sh", Wanted(device="h100-sxm-80gb"))
    assert (launch.fields["cluster.nodes"], launch.fields["cluster.devices_per_node"]) == (1, 1)
