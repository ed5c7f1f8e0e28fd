"""A GPT-NeoX configuration as a scenario.

Names and defaults: EleutherAI/gpt-neox `megatron/neox_arguments/neox_args.py` and `configs/` (20B.yml at commit
252ddc522fba). The vocabulary is the tokenizer's: GPT-2's and GPT-NeoX-20B's by type, else --vocab-size.
"""

from __future__ import annotations

import re

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import Settings
from windtunnel.importers.training_tables import dimensions, names_of, settings_of

FORMAT = "gpt_neox"
TITLE = "GPT-NeoX configuration"
OVER = ("deepspeed", "megatron", "trl")
OWN = frozenset({"pipe_parallel_size", "model_parallel_size"})
VOCABULARIES = {"GPT2BPETokenizer": (50257, "GPT-2's"), "HFTokenizer": (50277, "GPT-NeoX-20B's, the usual file")}
DIMENSIONS = {
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_attention_heads",
    "num_key_value_heads": "num_kv_heads",
    "max_position_embeddings": "max_position_embeddings",
}


def detect(text: str) -> bool:
    """Whether a text is a GPT-NeoX configuration: its names of parallel sizes beside dimensions or DeepSpeed's."""
    if "parallel" not in text:
        return False
    names = names_of(text)
    return bool(names & OWN) and bool(
        names & {"num_layers", "train_micro_batch_size_per_gpu", "hidden_size", "pos_emb", "attention_config"}
    )


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s = settings_of(text, launch)
    if launch.problems:
        return launch
    objective = ""
    devices = launch.cluster(wanted, None, None)
    if wanted.model is not None:
        launch.named_model(wanted.model, "--model of windtunnel import")
        s.get(*DIMENSIONS.values())
    else:
        _model(launch, s, wanted)
    usual = (2048, "no seq_length: the tool's usual one")
    tune.sequence_length(launch, s, wanted, "seq_length", usual=usual)
    _precision(launch, s)
    launch.set("training.framework", wanted.framework or "megatron_deepspeed", "GPT-NeoX")
    pp = s.number("pipe_parallel_size", least=0) or 1
    tp = s.number("model_parallel_size") or 1
    for axis, size, name in (("pp", pp, "pipe_parallel_size"), ("tp", tp, "model_parallel_size")):
        if size > 1:
            s.put(f"plan.{axis}", size, name)
    launch.set("plan.dp", "auto", "devices / (tp · pp)")
    stage = s.number("zero_optimization.stage", "zero_stage", least=0)
    launch.set("plan.zero", stage or 0, *s.said("zero_optimization.stage", "zero_stage"))
    if s.get("zero_optimization.cpu_offload") is True or s.get("zero_optimization.offload_optimizer.device") == "cpu":
        s.put("plan.offload.optimizer", 1.0, "zero_optimization.cpu_offload")
    again = s.get("checkpoint_activations") is True
    launch.set("plan.recompute.policy", "full" if again else "none", *s.said("checkpoint_activations"))
    tune.optimizer(launch, s, "optimizer.type")
    unlike = re.search(r"mamba|rwkv|gmlp|amlp", str(s.get("attention_config")))
    if unlike is not None and wanted.model is None:
        line = s.line("attention_config")
        launch.leave("attention_config", unlike[0], line, "layers that are no attention are not read", "model")
    kind = str(s.get("train_impl") or "normal")
    if kind not in ("normal", "None"):
        if kind in tune.PAIRED or kind in tune.REFERENCED or kind == "kto":
            objective = kind
        else:
            launch.leave("train_impl", kind, s.line("train_impl"), "no such objective here", "algorithm")
    if "flash" in str(s.get("attention_config")):
        s.put("training.attention", "flash2", "attention_config")
    rates = [s.get(name) for name in ("hidden_dropout", "attention_dropout")]
    if any(isinstance(rate, int | float) and rate > 0 for rate in rates):
        s.put("training.dropout", True, "hidden_dropout", "attention_dropout")
    _batch(launch, s, wanted, devices, tp * pp)
    if objective:
        tune.objective(launch, objective, *s.said("train_impl"))
    s.rest()
    return launch


def _model(launch: Launch, s: Settings, wanted: Wanted) -> None:
    kind, gated = s.get("tokenizer_type") or "GPT2BPETokenizer", s.get("activation") in ("swiglu", "geglu")
    gated = gated or s.get("mlp_type") == "llama"
    norm = "rmsnorm" if s.get("norm") == "rmsnorm" else "layernorm"
    position = {"rotary": "rope", "alibi": "alibi", "none": "none", "rpe": "relative"}.get(
        str(s.get("pos_emb")), "learned"
    )
    hidden = s.number("hidden_size") or 0
    width = s.number("intermediate_size") or (int(8 * hidden / 3) // 256 * 256 + 256 if gated else 4 * hidden)
    vocabulary = wanted.vocab_size or s.number("padded_vocab_size", "vocab_size", "model_vocab_size")
    if vocabulary is None:
        vocabulary, whose = VOCABULARIES.get(str(kind), VOCABULARIES["HFTokenizer"])
        launch.assumed.append(("model.vocab_size", str(vocabulary), f"tokenizer_type {kind}: {whose}; --vocab-size"))
    biased = s.get("use_bias_in_attn_linear") is not False
    experts = s.number("moe_num_experts", "num_experts") or 0
    mixture = {}
    if experts > 1:
        top = s.number("moe_top_k") or 1
        mixture = {"num_experts": experts, "num_experts_per_tok": top, "moe_intermediate_size": width}
    more = {
        "family": "moe" if mixture else "dense",
        "vocab_size": vocabulary,
        "intermediate_size": width,
        "gated_mlp": gated,
        "hidden_act": "silu" if gated else "gelu",
        "norm": norm,
        "position_embedding": position,
        "tie_word_embeddings": s.get("no_weight_tying") is not True,
        "parallel_block": s.get("gpt_j_residual") is True,
        "attention_bias": biased,
        "mlp_bias": not gated and s.get("use_bias_in_mlp") is not False,
        **mixture,
    }
    dimensions(launch, s, DIMENSIONS, more)


def _precision(launch: Launch, s: Settings) -> None:
    named = s.dtype("precision")
    on = {"fp16": s.get("fp16.enabled"), "bf16": s.get("bf16.enabled")}
    kind = named or next((kind for kind, value in on.items() if value is True), "fp32")
    launch.set("training.precision", kind, *s.said("precision", f"{kind}.enabled"))


def _batch(launch: Launch, s: Settings, wanted: Wanted, devices: int | None, inner: int) -> None:
    """Two of micro-batch, accumulation and batch, as DeepSpeed takes them."""
    batch = wanted.global_batch or s.number("train_batch_size")
    micro_name, steps_name = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
    if batch is not None:
        said = "--global-batch of windtunnel import" if wanted.global_batch else "train_batch_size"
        launch.set("training.global_batch", batch, said, s.line("train_batch_size"))
        micro = wanted.mbs or s.number(micro_name)
        replicas = devices // inner if devices and devices % inner == 0 else None
        if micro is None and replicas and batch % replicas == 0:
            micro = batch // replicas // (s.number(steps_name) or 1)
        if micro is not None:
            s.put("plan.mbs", micro, micro_name)
        s.get(steps_name)
        return
    tune.batch(launch, s, wanted, devices, inner, (micro_name, steps_name), 1)
