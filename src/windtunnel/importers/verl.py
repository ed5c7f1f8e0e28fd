"""verl as a scenario: its SFT trainers; PPO, GRPO and kin are recognised, and the step of the actor can be read.

Names and defaults: volcengine/verl `verl/trainer/config/sft_trainer.yaml` at commit 005a83db8921,
`sft_trainer_engine.yaml` and `ppo_trainer.yaml` (0.2 to 0.6). Settings without a field are data, `flags/verl.yaml`.
"""

from __future__ import annotations

import re

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers import launched
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import Settings

FORMAT = "verl"
TITLE = "verl settings"
OVER = ("trl", "hf_trainer", "megatron_bridge", "megatron", "vllm", "sglang", "deepspeed_chat")
PROGRAM = re.compile(
    r"(?:-m\s+|/)(?:\w{1,60}[./]){0,12}(fsdp_sft_trainer\w{0,60}|sft_trainer\w{0,60}(?=\s)|sft_trainer_ray|main_ppo\w{0,60}|main_dapo\w{0,60}|main_\w{0,60}grpo\w{0,60}"
    r"|main_spin|main_sppo|main_eval_ppo|fully_async_main|one_step_off_policy\S{0,100}|main_prime\w{0,60}|main_ppo_split)(?:\.py)?(?=\s|$)"
)
MARKS = re.compile(r"\b(data\.(train_files|train_batch_size|max_length)|actor_rollout_ref\.|model\.partial_pretrain)")
ADAPTERS = tune.AdapterNames(
    rank=("model.lora_rank",),
    targets=("model.target_modules",),
    dropout=("(dropout)",),
    dora=("(dora)",),
    usual_said="verl's default",
)
ACTOR = "actor_rollout_ref.actor."
ROLLOUT = "actor_rollout_ref.rollout."


def detect(text: str) -> bool:
    """Whether a text starts one of verl's trainers: the program, with verl's own settings."""
    return PROGRAM.search(text) is not None and MARKS.search(text) is not None


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a command; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    found = launched.find(text, launch, wanted.env, PROGRAM)
    if found is None:
        launch.wrong("", "starts verl nowhere that can be read")
        return launch
    s = found.settings(launch)
    started = launched.started_by(found, launch, wanted)
    for name, attribute in (("trainer.nnodes", "nodes"), ("trainer.n_gpus_per_node", "per_node")):
        value = s.get(name)
        if getattr(started, attribute) is None and isinstance(value, int):
            setattr(started, attribute, (value, name, s.line(name)))
    rollouts = "sft" not in found.program
    if rollouts and started.per_node is None:
        started.per_node = (8, "no trainer.n_gpus_per_node: verl's default", None)
        launch.assumed.append(("cluster.devices_per_node", "8", "no trainer.n_gpus_per_node: verl's default"))
    launched.cluster(launch, wanted, found, started)
    if rollouts:
        _actor(launch, s, wanted, found)
    else:
        _sft(launch, s, wanted)
    launch.set("plan.dp", "auto", "devices / sequence parallelism")
    s.rest()
    return launch


def _sft(launch: Launch, s: Settings, wanted: Wanted) -> None:
    """FSDP over all devices, weights in fp32 that are gathered in bf16."""
    stored = tune.base_model(launch, s, wanted, "model.partial_pretrain", "model.path")
    usual = (1024, "no data.max_length: verl's default")
    tune.sequence_length(launch, s, wanted, "data.max_length", usual=usual)
    launch.set("training.precision", "bf16", "verl computes in bf16")
    _weights(launch, s, stored, "model.fsdp_config.model_dtype", "model.lora_rank")
    size = s.number("ulysses_sequence_parallel_size", "engine.ulysses_sequence_parallel_size") or 1
    if size > 1:
        s.put("plan.cp", size, "ulysses_sequence_parallel_size", "engine.ulysses_sequence_parallel_size")
        launch.set("plan.cp_kind", "all_to_all", "Ulysses")
    again = s.get("model.enable_gradient_checkpointing")
    if again is None:
        launch.assume("plan.recompute.policy", "none", "no model.enable_gradient_checkpointing: verl's default to 0.4")
    else:
        policy = "full" if again is True else "none"
        s.put("plan.recompute.policy", policy, "model.enable_gradient_checkpointing")
    if s.get("model.use_liger") is True:
        s.put("training.fused_cross_entropy", True, "model.use_liger")
    _offload(launch, s, "model.fsdp_config.")
    micro = ("data.micro_batch_size_per_gpu", "data.micro_batch_size")
    tune.whole_batch(launch, s, wanted, micro, ("data.train_batch_size",), (4, 256))
    if not s.get("use_remove_padding"):
        s.leave(tune.UNPACKED, "data.max_length")


def _weights(launch: Launch, s: Settings, stored: str | None, dtype: str, rank: str) -> None:
    """All weights or adapters, and the format in which weights are sharded."""
    if s.get(rank):
        s.put("training.phase", "lora", rank)
        s.values.setdefault("model.lora_rank", s.get(rank))
        tune.adapters(launch, s, ADAPTERS, stored)
        launch.set("training.framework", "transformers", "FSDP with adapters")
    else:
        launch.set("training.phase", "sft", f"no {rank}")
        half = str(s.get(dtype) or "fp32") in ("bf16", "bfloat16")
        said = f"{dtype}: weights are sharded in {'bf16' if half else 'fp32'}"
        launch.set("training.framework", "transformers" if half else "fsdp1", said, s.line(dtype))
    launch.set("plan.zero", 3, "FSDP over all devices")


def _offload(launch: Launch, s: Settings, prefix: str) -> None:
    for name, field in (
        ("cpu_offload", "params"),
        ("param_offload", "params"),
        ("offload_params", "params"),
        ("optimizer_offload", "optimizer"),
    ):
        if s.get(prefix + name) is True:
            s.put(f"plan.offload.{field}", 1.0, prefix + name)


def _actor(launch: Launch, s: Settings, wanted: Wanted, found: launched.Launched) -> None:
    """The step of the policy that PPO or GRPO trains, and what stands beside it."""
    stored = tune.base_model(launch, s, wanted, "actor_rollout_ref.model.path")
    parts = [s.get("data.max_prompt_length"), s.get("data.max_response_length")]
    known = [part for part in parts if isinstance(part, int)]
    if len(known) == 2 and wanted.seq_len is None:
        launch.set("training.seq_len", sum(known), "data.max_prompt_length + data.max_response_length")
    else:
        usual = (1024, "no lengths of prompt and response: verl's defaults, 512 each")
        tune.sequence_length(launch, s, wanted, "(length)", usual=usual)
    launch.set("training.precision", "bf16", "verl computes in bf16")
    megatron = str(s.get(ACTOR + "strategy")) == "megatron" or any(
        name.startswith(ACTOR + "megatron.") for name in s.values
    )
    rank = "actor_rollout_ref.model.lora_rank"
    _weights(launch, s, stored, ACTOR + "fsdp_config.model_dtype", rank)
    if megatron:
        launch.set("training.framework", "megatron_core", "strategy megatron")
        launch.set("plan.zero", 1, "Megatron-Core's distributed optimizer")
        for axis, name in (("tp", "tensor"), ("pp", "pipeline"), ("cp", "context"), ("ep", "expert")):
            full = f"{ACTOR}megatron.{name}_model_parallel_size"
            s.take(f"plan.{axis}", full if axis not in ("cp",) else f"{ACTOR}megatron.context_parallel_size")
    size = s.number(ACTOR + "ulysses_sequence_parallel_size") or 1
    if size > 1:
        s.put("plan.cp", size, ACTOR + "ulysses_sequence_parallel_size")
        launch.set("plan.cp_kind", "all_to_all", "Ulysses")
    on = s.get("actor_rollout_ref.model.enable_gradient_checkpointing") is not False
    launch.set(
        "plan.recompute.policy", "full" if on else "none", "actor_rollout_ref.model.enable_gradient_checkpointing"
    )
    _offload(launch, s, ACTOR + "fsdp_config.")
    samples = s.get(ROLLOUT + "n") or 1
    prompts = s.number(ACTOR + "ppo_mini_batch_size") or s.number("data.train_batch_size") or 256
    rows = prompts * samples if isinstance(samples, int) else prompts
    how = "ppo_mini_batch_size · rollout.n"
    launch.set("training.global_batch", wanted.global_batch or rows, how, s.line(ACTOR + "ppo_mini_batch_size"))
    micro = s.number(ACTOR + "ppo_micro_batch_size_per_gpu") or 1
    launch.set("plan.mbs", wanted.mbs or micro, *s.said(ACTOR + "ppo_micro_batch_size_per_gpu"))
    estimator = str(s.get("algorithm.adv_estimator") or "gae")
    kind = {"gae": "PPO", "grpo": "GRPO"}.get(estimator, estimator.upper())
    engine = s.get(ROLLOUT + "name") or "an engine"
    tp = s.get(ROLLOUT + "tensor_model_parallel_size") or 1
    what = f"rollouts of {samples} samples of {s.get('data.train_batch_size') or 1024} prompts by {engine} with tp {tp}"
    launched.post_training(launch, wanted, kind, what, (found.program, found.line))
