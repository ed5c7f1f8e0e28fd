"""A nanotron configuration as a scenario.

Names and defaults: huggingface/nanotron `src/nanotron/config/` and `examples/config_qwen.yaml` (commit 00708b80c88e).
"""

from __future__ import annotations

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import Settings
from windtunnel.importers.training_tables import devices_of, dimensions, names_of, settings_of

FORMAT = "nanotron"
TITLE = "nanotron configuration"
OVER = ("megatron_bridge", "trl", "axolotl", "torchtune")
OWN = frozenset({"tokens.batch_accumulation_per_replica", "parallelism.pp_engine", "parallelism.tp_mode"})
CONFIG = "model.model_config."
DIMENSIONS = {
    name: CONFIG + name
    for name in (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
        "tie_word_embeddings",
        "hidden_act",
        "attention_bias",
    )
}


def detect(text: str) -> bool:
    """Whether a text is a nanotron configuration."""
    return "parallelism" in text and "micro_batch_size" in text and len(names_of(text) & OWN) >= 1


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s = settings_of(text, launch)
    if launch.problems:
        return launch
    axes = {"dp": "dp", "tp": "tp", "pp": "pp", "cp": "context_parallel_size"}
    sizes = {axis: s.number(f"parallelism.{name}") or 1 for axis, name in axes.items()}
    count = sizes["dp"] * sizes["tp"] * sizes["pp"] * sizes["cp"]
    if wanted.nodes is not None:
        launch.cluster(wanted, None, None)
    else:
        devices_of(launch, wanted, count, "parallelism: dp · tp · pp", s.line("parallelism.dp"))
    for axis in ("tp", "pp", "cp"):
        if sizes[axis] > 1:
            s.put(f"plan.{axis}", sizes[axis], f"parallelism.{axes[axis]}")
    experts = s.number("parallelism.expert_parallel_size") or 1
    if experts > 1:
        s.put("plan.ep", experts, "parallelism.expert_parallel_size")
    launch.set("plan.dp", "auto" if wanted.nodes else sizes["dp"], "parallelism.dp", s.line("parallelism.dp"))
    if sizes["tp"] > 1:
        spread = str(s.get("parallelism.tp_mode")).upper() == "REDUCE_SCATTER"
        launch.set("plan.sp", spread, *s.said("parallelism.tp_mode"))
    _model(launch, s, wanted)
    tune.given_length(launch, s, wanted, "tokens.sequence_length")
    launch.set("training.precision", s.dtype("model.dtype") or "bf16", *s.said("model.dtype"))
    launch.set("training.framework", wanted.framework or "nanotron", "the format of the file")
    launch.set("plan.zero", s.number("optimizer.zero_stage", least=0) or 0, *s.said("optimizer.zero_stage"))
    again = s.get("parallelism.recompute_layer") is True
    launch.set("plan.recompute.policy", "full" if again else "none", *s.said("parallelism.recompute_layer"))
    micro = wanted.mbs or s.number("tokens.micro_batch_size")
    steps = s.number("tokens.batch_accumulation_per_replica") or 1
    if micro is not None:
        launch.set("plan.mbs", micro, *s.said("tokens.micro_batch_size"))
        rows = wanted.global_batch or micro * steps * sizes["dp"]
        how = f"micro-batch {micro} · accumulation {steps} · {sizes['dp']} replicas"
        launch.set("training.global_batch", rows, how, s.line("tokens.batch_accumulation_per_replica"))
    s.rest()
    return launch


def _model(launch: Launch, s: Settings, wanted: Wanted) -> None:
    if wanted.model is not None:
        launch.named_model(wanted.model, "--model of windtunnel import")
        s.get(*DIMENSIONS.values())
        return
    experts = s.number(CONFIG + "moe_config.num_experts", CONFIG + "moe_num_experts") or 0
    more: dict[str, object] = {"family": "dense"}
    if experts > 1:
        top = s.number(CONFIG + "moe_config.top_k", CONFIG + "num_experts_per_tok") or 1
        width = s.number(CONFIG + "moe_config.moe_intermediate_size") or s.number(CONFIG + "intermediate_size")
        more = {"family": "moe", "num_experts": experts, "num_experts_per_tok": top, "moe_intermediate_size": width}
    dimensions(launch, s, DIMENSIONS, more)
