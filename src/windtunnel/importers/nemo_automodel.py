"""A YAML recipe of NeMo Automodel as a scenario.

Names and defaults: NVIDIA-NeMo/Automodel `nemo_automodel/components/distributed/` and `examples/llm_finetune/` (commit
18f45b06d63b): FSDP2 over what tensor, pipeline and context parallelism leave.
"""

from __future__ import annotations

import re

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers import launched
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import Settings
from windtunnel.importers.training_tables import devices_of, settings_of, table_of

FORMAT = "nemo_automodel"
TITLE = "NeMo Automodel recipe"
OVER = ("trl", "axolotl", "torchtune", "megatron_bridge", "llama_factory")
ADAPTERS = tune.AdapterNames(
    rank=("peft.dim", "peft.r"),
    targets=("peft.target_modules",),
    dropout=("peft.dropout",),
    dora=("peft.use_dora",),
    usual_said="Automodel's default",
)
AXES = {"tp": "tp_size", "pp": "pp_size", "cp": "cp_size", "ep": "ep_size"}


def detect(text: str) -> bool:
    """Whether a text is a recipe of Automodel: its classes under `_target_`, or its model beside `step_scheduler`."""
    if "step_scheduler" not in text or "model" not in text:
        return False
    table = table_of(text)
    return isinstance(table.get("step_scheduler"), dict) and (
        "nemo_automodel" in text or "pretrained_model_name_or_path" in text
    )


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s = settings_of(text, launch)
    if launch.problems:
        return launch
    teacher = next((name for name in s.values if name.startswith("teacher_model.")), None)
    if teacher is not None:
        launched.distillation(launch, wanted, "teacher_model", s.line(teacher))
    sizes = {axis: s.number(f"distributed.{name}") or 1 for axis, name in AXES.items()}
    inner = sizes["tp"] * sizes["pp"] * sizes["cp"]
    stated = s.get("distributed.dp_size")
    named = re.search(r"--nproc[-_]per[-_]node[= ](\d{1,15})(?!\d)", text)
    if isinstance(stated, int) and stated > 0 and wanted.nodes is None:
        devices = devices_of(
            launch, wanted, stated * inner, "distributed.dp_size · tp · pp · cp", s.line("distributed.dp_size")
        )
    elif named is not None and wanted.devices_per_node is None:
        line = text.count("\n", 0, named.start()) + 1
        devices = launch.cluster(wanted, (1, "one node starts it", line), (int(named[1]), "--nproc-per-node", line))
    else:
        devices = launch.cluster(wanted, None, None)
    for axis, size in sizes.items():
        if size > 1:
            s.put(f"plan.{axis}", size, f"distributed.{AXES[axis]}")
    launch.set("plan.dp", "auto", "devices / (tp · pp · cp)")
    if sizes["tp"] > 1:
        launch.set("plan.sp", s.get("distributed.sequence_parallel") is True, *s.said("distributed.sequence_parallel"))
    names = (
        "model.pretrained_model_name_or_path",
        "model.config.pretrained_model_name_or_path",
        "model.config.name_or_path",
    )
    stored = tune.base_model(launch, s, wanted, *names)
    _length(launch, s, wanted)
    kind = s.dtype("model.torch_dtype", "model.dtype", "distributed.mp_policy.param_dtype")
    launch.set("training.precision", kind or "bf16", *s.said("model.torch_dtype", "model.dtype"))
    if s.get("fp8.enabled") is True:
        s.put("training.precision", "fp8", "fp8.enabled")
    recipe = s.get("model.backend.te_fp8.recipe")
    if recipe is not None:
        kinds = {"mxfp8": "mxfp8", "block": "fp8_block"}
        s.put("training.precision", kinds.get(str(recipe), "fp8"), "model.backend.te_fp8.recipe")
    lora = any(name.startswith("peft.") for name in s.values)
    launch.set("training.phase", "lora" if lora else "sft", "peft" if lora else "no peft")
    if lora:
        if s.get("peft.match_all_linear") is True or "peft.target_modules" not in s.values:
            s.values["peft.target_modules"] = "all-linear"
        s.values["peft.target_modules"] = _targets(s)
        tune.adapters(launch, s, ADAPTERS, "nf4" if s.get("quantization.load_in_4bit") is True else stored)
    strategy = str(s.get("distributed.strategy", "distributed._target_") or "fsdp2").lower()
    launch.set(
        "plan.zero",
        0 if "ddp" in strategy.rsplit(".", 1)[-1] else 3,
        *s.said("distributed.strategy", "distributed._target_"),
    )
    launch.set("training.framework", wanted.framework or "torchtitan", "FSDP2, as torchtitan has it")
    again = s.get("distributed.activation_checkpointing") is True
    launch.set("plan.recompute.policy", "full" if again else "none", *s.said("distributed.activation_checkpointing"))
    micro = ("step_scheduler.local_batch_size", "dataloader.batch_size")
    steps = s.number("step_scheduler.grad_acc_steps", "step_scheduler.grad_accumulation_steps")
    if "step_scheduler.global_batch_size" not in s.values and steps is not None:
        name = next((name for name in micro if name in s.values), micro[0])
        tune.batch(launch, s, wanted, devices, inner, (name, "step_scheduler.grad_acc_steps"), 1)
    else:
        tune.whole_batch(launch, s, wanted, micro, ("step_scheduler.global_batch_size",), (1, 0))
    s.rest()
    return launch


def _targets(s: Settings) -> object:
    """Module names without the wildcards that Automodel takes in front of them."""
    given = s.values["peft.target_modules"]
    given = (
        [str(word).lstrip("*.").strip("'\"") for word in given] if isinstance(given, list) else str(given).lstrip("*.")
    )
    return "all-linear" if given in ("proj", ["proj"], []) else given


def _length(launch: Launch, s: Settings, wanted: Wanted) -> None:
    """Tokens of a row: of packs, else of the data set."""
    packed = s.get("packed_sequence.packed_sequence_size")
    if isinstance(packed, int) and packed > 0:
        s.values["dataset.seq_length"] = packed
    names = (
        "dataset.seq_length",
        "dataset.seq_len",
        "dataset.max_length",
        "dataset.max_seq_length",
        "dataset.limit_seq_length",
    )
    tune.given_length(launch, s, wanted, *names)
