"""A YAML file of NeMo-RL as a scenario: SFT and DPO; GRPO and distillation are recognised, the policy's step is read.

Names and defaults: NVIDIA-NeMo/RL `examples/configs/sft.yaml` (commit 00455ac0895f), `dpo.yaml`, `grpo_math_1B.yaml`.
"""

from __future__ import annotations

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers import launched
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.named_files import beside, text_beside
from windtunnel.importers.settings import Settings
from windtunnel.importers.training_tables import names_of, settings_of

FORMAT = "nemo_rl"
TITLE = "NeMo-RL configuration"
OVER = ("trl", "axolotl", "megatron_bridge", "llama_factory", "nemo_automodel")
OWN = frozenset({"policy.train_global_batch_size", "policy.max_total_sequence_length", "policy.train_micro_batch_size"})
_DEEPEST = 4
"""Files that build on each other, at most."""
ALGORITHMS = ("grpo", "distillation", "ppo", "dapo", "rloo", "rm", "opd")
MEGATRON = "policy.megatron_cfg."
DTENSOR = "policy.dtensor_cfg."
ADAPTERS = tune.AdapterNames(
    rank=("(rank)",), targets=("(targets)",), dropout=("(dropout)",), dora=("(dora)",), usual_said="all linear layers"
)


def detect(text: str) -> bool:
    """Whether a text is a file of NeMo-RL."""
    return "policy" in text and bool(names_of(text) & OWN)


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s = settings_of(text, launch)
    if launch.problems:
        return launch
    _defaults(launch, s, file)
    sizes = []
    for name in ("cluster.num_nodes", "cluster.gpus_per_node"):
        value = s.number(name)
        sizes.append(None if value is None else (value, name, s.line(name)))
    launch.cluster(wanted, sizes[0], sizes[1])
    stored = tune.base_model(launch, s, wanted, "policy.model_name")
    tune.given_length(launch, s, wanted, "policy.max_total_sequence_length")
    launch.set("training.precision", s.dtype("policy.precision") or "bf16", *s.said("policy.precision"))
    megatron = s.get(MEGATRON + "enabled") is True
    s.used |= {name for name in s.values if name.startswith(DTENSOR if megatron else MEGATRON)}  # of the other back end
    _plan(launch, s, MEGATRON if megatron else DTENSOR, megatron=megatron)
    launch.set(
        "training.framework", wanted.framework or ("megatron_core" if megatron else "torchtitan"), "the back end"
    )
    _adapters(launch, s, stored, MEGATRON + "peft." if megatron else DTENSOR + "lora_cfg.")
    micro, batch = ("policy.train_micro_batch_size",), ("policy.train_global_batch_size",)
    tune.whole_batch(launch, s, wanted, micro, batch, (1, 0))
    tables = {name.split(".")[0] for name in s.values}
    algorithm = next((name for name in ALGORITHMS if name in tables), None)
    if algorithm is not None:
        samples = s.get(f"{algorithm}.num_generations_per_prompt") or 1
        backend = s.get("policy.generation.backend") or "an engine"
        what = f"rollouts of {samples} samples by {backend} beside the step"
        said = next(name for name in s.values if name.startswith(f"{algorithm}."))
        launched.post_training(launch, wanted, algorithm.upper(), what, (algorithm, s.line(said)))
    elif "dpo" in tables:
        tune.objective(launch, "dpo", "dpo", s.line("dpo.reference_policy_kl_penalty"))
    s.rest()
    return launch


def _defaults(launch: Launch, s: Settings, file: str) -> None:
    """Settings of the files that a file builds on, where they lie by its path; else they are asked."""
    at, given = file, s.get("defaults")
    for _ in range(_DEEPEST):
        names = [name for name in (given if isinstance(given, list) else [given]) if isinstance(name, str)]
        name = next((name for name in names if name.endswith((".yaml", ".yml"))), None)
        if name is None:
            return
        path, text = beside(at, name), text_beside(at, name)
        if path is None or text is None:
            why = f"settings of {name}, which the file builds on, are not there"
            launch.leave("defaults", name, s.line("defaults"), why, "parallelism")
            return
        below = settings_of(text, launch)
        for key, value in below.values.items():
            s.values.setdefault(key, value)
        at, given = str(path), below.values.get("defaults")


def _plan(launch: Launch, s: Settings, p: str, *, megatron: bool) -> None:
    """Axes, sharding and recomputation of the back end that is on."""
    long = "_model_parallel_size" if megatron else "_parallel_size"
    for axis, name in (("tp", "tensor"), ("pp", "pipeline"), ("ep", "expert")):
        value = s.number(f"{p}{name}{long}")
        if value is not None and value > 1:
            s.put(f"plan.{axis}", value, f"{p}{name}{long}")
    context = s.number(p + "context_parallel_size")
    if context is not None and context > 1:
        s.put("plan.cp", context, p + "context_parallel_size")
    if launch.size("tp") > 1:
        launch.set("plan.sp", s.get(p + "sequence_parallel") is True, *s.said(p + "sequence_parallel"))
    launch.set("plan.dp", "auto", "devices / (tp · pp · cp)")
    launch.set("plan.zero", 1 if megatron else 3, "the distributed optimizer" if megatron else "FSDP2")
    again = s.get(p + "activation_checkpointing") is True
    launch.set("plan.recompute.policy", "full" if again else "none", *s.said(p + "activation_checkpointing"))
    if s.get(p + "cpu_offload") is True:
        s.put("plan.offload.params", 1.0, p + "cpu_offload")
    s.get(p + "sequence_parallel", p + "enabled", MEGATRON + "enabled", DTENSOR + "enabled")


def _adapters(launch: Launch, s: Settings, stored: str | None, p: str) -> None:
    """All weights, or adapters."""
    if s.get(p + "enabled") is not True:
        launch.set("training.phase", "sft", *s.said(p + "enabled"))
        return
    s.put("training.phase", "lora", p + "enabled")
    s.values["(rank)"] = s.get(p + "dim") or 8
    s.values["(targets)"] = s.get(p + "target_modules") or "all-linear"
    s.values["(dropout)"] = s.get(p + "dropout") or 0.0
    tune.adapters(launch, s, ADAPTERS, stored)
