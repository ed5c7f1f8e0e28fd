"""TRL's supervised fine-tuning as a scenario: `trl sft`, `accelerate launch … sft.py`, or its YAML file.

Names and defaults: huggingface/trl `trl/trainer/model_config.py`, `sft_config.py` and `base_config.py` (0.2x to 1.x),
over those of Transformers' `TrainingArguments`. An Accelerate configuration alone needs --model. Settings without a
field are data, `flags/trl.yaml`.
"""

from __future__ import annotations

import re

from windtunnel.importers import accelerate, launched
from windtunnel.importers import fine_tuning as tune
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.llama_factory import SIGNS
from windtunnel.importers.named_files import text_beside
from windtunnel.importers.program_lines import InOrder
from windtunnel.importers.settings import Settings
from windtunnel.importers.shell import read_script
from windtunnel.importers.yaml_settings import read_mapping, top_level_keys

FORMAT = "trl"
TITLE = "TRL settings"
OTHER_TRAINERS = (
    "async_grpo bco distillation gkd gold grpo gspo mpo nash_md online_dpo papo ppo prm reward rloo sdft sdpo"
    " ssd tpo xpo"
).split()
OBJECTIVES = ("cpo", "orpo", "dpo", "kto")
_STARTERS = r"(?:accelerate\s+launch|python3?|torchrun|uv\s+run|deepspeed)"
_SCRIPTS = rf"(?:run_)?(?:sft|{'|'.join((*OTHER_TRAINERS, *OBJECTIVES))})(?:_\w+)?|reward_modeling"
COMMAND = InOrder(
    otherwise=re.compile(rf"\btrl\s+(sft|{'|'.join((*OTHER_TRAINERS, *OBJECTIVES))})\b"),
    parts=(
        re.compile(rf"{_STARTERS}\b"),
        re.compile(rf"(?:[\s/=]|\btrl\.scripts\.)(?:{_SCRIPTS})(?:\.py)?\s"),
    ),
    later=re.compile(r"--(?:model_name(?:_or_path)?|config)\b"),
)
OTHERS = re.compile(rf"(?:^|[/_\s])({'|'.join(OTHER_TRAINERS)}|reward_modeling)(?:_\w+)?(?:\.py)?$")
ADAPTERS = tune.AdapterNames(
    rank=("lora_r",),
    targets=("lora_target_modules",),
    dropout=("lora_dropout",),
    dora=("use_dora",),
    trained=("lora_modules_to_save",),
    parameters=("lora_target_parameters",),
    usual_rank=16,
    usual_targets=("q", "v"),
    usual_dropout=0.05,
    usual_said="TRL's default (PEFT adapts queries and values)",
)
KERNELS = {
    "flash_attention_2": "flash2",
    "flash_attention_3": "flash3",
    "sdpa": "sdpa",
    "eager": "unfused",
}


OVER = ("hf_trainer",)
OWN_KEYS = frozenset(
    "torch_dtype dtype use_peft lora_r per_device_train_batch_size max_length max_seq_length attn_implementation beta"
    " dataset_name dataset_mixer dataset_mixture reward_funcs num_generations gradient_checkpointing".split()
)
NEVER_KEYS = frozenset(
    "zero_stage lora_dim only_optimize_lora lora_rank tuner_type train_type sft_type dataset_mixer_list exp_name"
    " use_slow_tokenizer micro_batch_size".split()
)
"""Settings of other tools whose files name a model in the same way."""
ROLLOUT_KEYS = frozenset("num_generations max_completion_length reward_funcs reward_model_path vllm_mode".split())


def detect(text: str) -> bool:
    """Whether a text starts or configures TRL, or configures Accelerate."""
    if re.search(r"\bllamafactory|\bsrc/train(_bash)?\.py\b", text):
        return False
    keys = top_level_keys(text)
    if "model_name_or_path" in keys:
        return not keys & SIGNS and bool(keys & OWN_KEYS) and not keys & NEVER_KEYS
    if {"distributed_type", "compute_environment"} & keys and {"num_processes", "mixed_precision"} & keys:
        return True
    return COMMAND.search(text) is not None


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a command or a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s, started, program = _settings(text, launch, wanted)
    if launch.problems:
        return launch
    several = started.fsdp or started.deepspeed
    devices = _cluster(launch, wanted, started, several=several)
    stored = tune.base_model(launch, s, wanted, "model_name_or_path", "model_name")
    usual = (1024, "no max_length: TRL's default")
    tune.sequence_length(launch, s, wanted, "max_length", "max_seq_length", usual=usual)
    _precision(launch, s, started)
    _method(launch, s, started, stored)
    launch.set("plan.dp", "auto", "devices / (tp · cp)")
    for axis in ("tp", "cp"):
        if getattr(started, axis) > 1:
            launch.set(f"plan.{axis}", getattr(started, axis), started.said)
    if wanted.framework:
        launch.set("training.framework", wanted.framework, "--framework of windtunnel import")
    tune.optimizer(launch, s, "optim")
    _memory(launch, s, started)
    names = ("per_device_train_batch_size", "gradient_accumulation_steps")
    if started.steps and started.steps > 1 and names[1] not in s.values:
        s.values[names[1]] = started.steps
    tune.batch(launch, s, wanted, devices, started.tp * started.cp, names, 8)
    program = program or _stated(s, launch)
    loss = str(s.get("loss_type") or "")
    if ROLLOUT_KEYS & s.values.keys():
        samples = s.get("num_generations") or 8
        s.get(*ROLLOUT_KEYS, "use_vllm", "max_prompt_length")
        what = f"rollouts of {samples} samples beside the step"
        launched.post_training(launch, wanted, "GRPO", what, s.said(*sorted(ROLLOUT_KEYS)))
    elif program:
        s.get("beta", "max_prompt_length", "loss_type", "precompute_ref_log_probs")
        reference = "" if program != "dpo" or not s.values.get("precompute_ref_log_probs") else loss
        tune.objective(launch, "orpo" if reference else program, *s.said("beta"))
    if not s.get("packing"):
        where = "max_length" if "max_length" in s.values else "max_seq_length"
        s.leave(tune.UNPACKED, where)
    s.rest()
    return launch


def _settings(text: str, launch: Launch, wanted: Wanted) -> tuple[Settings, accelerate.Started, str]:
    """Settings of the trainer, what the launcher says, and the trainer's name where it takes pairs."""
    keys = top_level_keys(text)
    if "distributed_type" in keys and "model_name_or_path" not in keys:
        values, _ = read_mapping(text, launch)
        launch.title = "Accelerate configuration"
        return Settings(launch, {}, {}), accelerate.of_settings(values, "the file"), ""
    if "model_name_or_path" in keys:
        return Settings(launch, *read_mapping(text, launch)), accelerate.Started(), ""
    script = read_script(text, wanted.env, file=launch.file)
    spelled = [[(word.text, word.line) for word in command] for command in script.commands]
    trained = [words for words in spelled if COMMAND.search(" ".join(word for word, _ in words))]
    if not trained:
        launch.wrong("", "starts no trainer that is known here")
        return Settings(launch, {}, {}), accelerate.Started(), ""
    words = trained[0]
    begin = _program(words)
    program = words[begin][0]
    other = OTHERS.search(program)
    if other is not None:
        rule = "trains with rollouts or scores, which one training step does not hold (sft, dpo, kto, orpo do)"
        launch.wrong(program, rule, line=words[begin][1])
        return Settings(launch, {}, {}), accelerate.Started(), ""
    values, lines, _ = tune.flags_of(words[begin + 1 :])
    config = values.pop("config", None)
    inner = text_beside(launch.file, config) if isinstance(config, str) else None
    if inner is not None:
        inside, _ = read_mapping(inner, launch)
        values = {**inside, **values}
    elif config is not None:
        launch.wrong("--config", "is not in this file's folder; import that file itself", config, lines["config"])
    started = accelerate.started(words[:begin], launch)
    chosen = values.pop("accelerate_config", None)
    if isinstance(chosen, str):
        accelerate.named(started, chosen)
    for name in ("num_processes", "num_machines"):  # `trl sft` passes options of the launcher on
        if isinstance(values.get(name), int):
            size = (values.pop(name), f"--{name}", lines.get(name))
            setattr(started, "per_node" if name == "num_processes" else "nodes", size)
    paired = next((name for name in OBJECTIVES if re.search(rf"(^|/){name}(\.py)?$", program)), "")
    return Settings(launch, values, lines), started, paired


def _stated(s: Settings, launch: Launch) -> str:
    """The objective of a file that no command starts, by the settings that only objectives on pairs have."""
    if not ({"beta", "max_prompt_length"} & s.values.keys()):
        return ""
    named = " ".join(str(s.values.get(name, "")) for name in ("output_dir", "run_name", "hub_model_id"))
    named = f"{launch.file.rsplit('/', 1)[-1]} {named}"
    found = re.search(r"(?<![a-z])(cpo|orpo|simpo|dpo|kto)(?![a-z])", named.lower())
    if found is None:
        said = next(name for name in ("beta", "max_prompt_length") if name in s.values)
        launch.assumed.append(("training.reference_passes", "1", f"{said} is a setting of DPO"))
    return found[1] if found else "dpo"


def _program(words: list[tuple[str, int]]) -> int:
    """Place of the script, or of the trainer's name behind `trl`."""
    for i, (word, _) in enumerate(words):
        if i and words[i - 1][0].rsplit("/", 1)[-1] == "trl":
            return i
        if word.endswith(".py"):
            return i
        if i and words[i - 1][0] == "-m" and words[i - 2][0].startswith("python"):
            return i
    return 0


def _cluster(launch: Launch, wanted: Wanted, started: accelerate.Started, *, several: bool) -> int | None:
    """Nodes and devices as the launcher says, else one of each."""
    if started.nodes is not None:
        per_node = started.per_node
        if per_node is None and not several:
            per_node = (1, "the file starts no second device", None)
        return launch.cluster(wanted, started.nodes, per_node)
    return tune.cluster(launch, wanted, started.per_node, several=several)


def _precision(launch: Launch, s: Settings, started: accelerate.Started) -> None:
    """bf16 unless another one is asked for (TRL turns it on)."""
    kind = next((kind for kind in ("bf16", "fp16") if s.get(kind) is True), None)
    if kind is not None:
        s.put("training.precision", kind, kind)
    elif s.get("bf16") is False:
        s.put("training.precision", "fp32", "bf16")
    elif started.precision is not None:
        launch.set("training.precision", started.precision, started.said)
    else:
        launch.set("training.precision", "bf16", "TRL's default")


def _method(launch: Launch, s: Settings, started: accelerate.Started, stored: str | None) -> None:
    """All weights, or adapters; where the weights are, and in which format they are loaded."""
    loaded = str(s.get("dtype", "torch_dtype", "model_init_kwargs.dtype", "model_init_kwargs.torch_dtype") or "float32")
    four, eight = s.get("load_in_4bit") is True, s.get("load_in_8bit") is True
    lora = s.get("use_peft") is True or four or eight
    if lora:
        s.put("training.phase", "lora", "use_peft", "load_in_4bit", "load_in_8bit")
        nested = s.get("use_bnb_nested_quant") is True
        base = ("nf4" if nested else "nf4_single") if four else "int8" if eight else stored
        tune.adapters(launch, s, ADAPTERS, base)
        if loaded == "float32" and base is None:
            launch.assumed.append(("training.lora", "16-bit base", "the checkpoint's own format; TRL may load fp32"))
    else:
        launch.set("training.phase", "sft", "no use_peft")
    half = lora or loaded in ("bfloat16", "float16", "auto")
    launch.set("training.framework", "transformers" if half else "ddp", f"weights are loaded as {loaded}")
    launch.set("plan.zero", started.zero or 0, started.said)
    if started.deepspeed:
        launch.set("training.framework", "deepspeed", started.said)
    elif started.fsdp and not lora:
        launch.set("training.framework", "fsdp1", "FSDP: weights are sharded in fp32 and gathered in 16 bits")
    config = s.get("deepspeed")
    if isinstance(config, str):
        tune.deepspeed(launch, s, "deepspeed", config)
    if started.offload:
        launch.set("plan.offload.optimizer", 1.0, started.said)
        if started.zero == 3:
            launch.set("plan.offload.params", 1.0, started.said)


def _memory(launch: Launch, s: Settings, started: accelerate.Started) -> None:
    """Recomputation, attention and loss kernels."""
    kernel = s.get("attn_implementation")
    if isinstance(kernel, str) and kernel in KERNELS:
        s.put("training.attention", KERNELS[kernel], "attn_implementation")
    elif kernel is not None:
        found = re.search(r"flash-attn(\d)", str(kernel))
        if found:
            s.put("training.attention", "flash3" if found.group(1) == "3" else "flash2", "attn_implementation")
        else:
            s.leave("no such attention kernel here: counted as PyTorch's", "attn_implementation")
    if s.get("use_liger_kernel", "use_liger") or s.get("loss_type") == "chunked_nll":
        s.put("training.fused_cross_entropy", True, "use_liger_kernel", "use_liger", "loss_type")
    if s.get("gradient_checkpointing") is False and not started.checkpoints:
        s.put("plan.recompute.policy", "none", "gradient_checkpointing")
    else:
        launch.set("plan.recompute.policy", "full", "on unless turned off: TRL's default")
    if s.get("activation_offloading") is True:
        s.put("plan.offload.activations", 1.0, "activation_offloading")
    if s.get("torch_compile") is True:
        s.put("training.compile", True, "torch_compile")
