"""A picotron `config.json` as a scenario.

Names and defaults: huggingface/picotron `create_config.py` and `template/base_config.json`: no sharded optimizer,
activations kept, bf16.
"""

from __future__ import annotations

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.training_tables import devices_of, names_of, settings_of

FORMAT = "picotron"
TITLE = "picotron configuration"
OVER = ("deepspeed", "megatron_bridge", "axolotl")
OWN = frozenset({"distributed.pp_engine", "distributed.dp_size", "distributed.tp_size"})


def detect(text: str) -> bool:
    """Whether a text is a picotron configuration."""
    return "pp_engine" in text and OWN <= names_of(text)


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s = settings_of(text, launch)
    sizes = {axis: s.number(f"distributed.{axis}_size") or 1 for axis in ("dp", "tp", "pp", "cp")}
    count = sizes["dp"] * sizes["tp"] * sizes["pp"] * sizes["cp"]
    if wanted.nodes is not None:
        launch.cluster(wanted, None, None)
    else:
        devices_of(launch, wanted, count, "distributed: dp · tp · pp · cp", s.line("distributed.dp_size"))
    for axis in ("tp", "pp", "cp"):
        if sizes[axis] > 1:
            s.put(f"plan.{axis}", sizes[axis], f"distributed.{axis}_size")
    launch.set("plan.dp", sizes["dp"], "distributed.dp_size", s.line("distributed.dp_size"))
    launch.set("plan.zero", 0, "picotron does not shard the optimizer")
    launch.set("plan.recompute.policy", "none", "picotron keeps activations")
    if sizes["tp"] > 1:
        launch.set("plan.sp", False, "picotron has no sequence parallelism")
    tune.base_model(launch, s, wanted, "model.name")
    for name in ("num_hidden_layers", "num_attention_heads", "num_key_value_heads"):
        value = s.get(f"model.{name}")
        if value is not None and wanted.model is None:
            s.leave("the model is taken with its own", f"model.{name}")
    launch.set("training.precision", s.dtype("model.dtype") or "bf16", *s.said("model.dtype"))
    if s.get("model.use_flash_attention") is True:
        s.put("training.attention", "flash2", "model.use_flash_attention")
    launch.set("training.framework", wanted.framework or "nanotron", "the nearest to picotron")
    tune.given_length(launch, s, wanted, "training.seq_length")
    micro, steps = wanted.mbs or s.number("training.micro_batch_size"), s.number("training.gradient_accumulation_steps")
    if micro is None:
        launch.wrong("training.micro_batch_size", "is required, or --mbs for windtunnel import")
    else:
        launch.set("plan.mbs", micro, *s.said("training.micro_batch_size"))
        rows = wanted.global_batch or micro * (steps or 1) * sizes["dp"]
        launch.set("training.global_batch", rows, "micro-batch · accumulation · dp")
    s.rest()
    return launch
