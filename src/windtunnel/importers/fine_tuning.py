"""What fine-tuning tools share: base model, adapters, batch, optimizer, sharding and checkpoints as scenario fields.

Axolotl, LLaMA-Factory and TRL run the trainer of Hugging Face Transformers with PEFT's adapters and bitsandbytes'
quantised weights, and torchtune has the same notions by other names. The readers of single formats say under which
names a file states them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windtunnel.catalog.checkpoints import named_format
from windtunnel.files.parsing import json_of
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.named_files import text_beside
from windtunnel.importers.settings import Settings
from windtunnel.stacks.weight_formats import BASE

PARTS = {
    "q_proj": "q",
    "k_proj": "k",
    "v_proj": "v",
    "qkv_proj": "qkv",
    "query_key_value": "qkv",
    "wqkv": "qkv",
    "w_pack": "qkv",
    "c_attn": "qkv",
    "in_proj": "qkv",
    "in_proj_qkv": "qkv",
    "o_proj": "proj",
    "out_proj": "proj",
    "output_proj": "proj",
    "dense": "proj",
    "wo": "proj",
    "gate_proj": "gate",
    "up_proj": "up",
    "gate_up_proj": "fc1",
    "down_proj": "fc2",
    "dense_h_to_4h": "up",
    "dense_4h_to_h": "fc2",
    "w1": "gate",
    "w2": "fc2",
    "w3": "up",
    "fc1": "up",
    "fc2": "fc2",
    "fc_in": "up",
    "fc_out": "fc2",
    "c_fc": "up",
    "q_a_proj": "q",
    "q_b_proj": "mla_up_proj",
    "kv_a_proj_with_mqa": "k",
    "kv_b_proj": "mla_up_proj",
    "x_proj": "proj",
    "mixer": "qkv",
    "wq": "q",
    "wk": "k",
    "wv": "v",
}
"""Name of a linear layer in model code → product of the graph. `c_proj` (GPT-2) ends both attention and MLP."""
EVERY = ("q", "k", "v", "proj", "gate", "up", "fc2", "mla_up_proj", "shared_experts")
"""Products next to which adapters stand where every linear layer has one; experts are no linear layers of their own."""
ENDS = {"embed_tokens": "embedding", "wte": "embedding", "word_embeddings": "embedding", "lm_head": "head"}
OPTIMIZERS = {
    "adam": "adam",
    "adamw": "adam",
    "adamw_torch": "adam",
    "adamw_torch_fused": "adam",
    "adamw_hf": "adam",
    "adamw_apex_fused": "adam",
    "adamw_anyprecision": "adam",
    "paged_adamw_32bit": "adam",
    "paged_adamw": "adam",
    "adamw_bnb_8bit": "adam8bit",
    "adamw_8bit": "adam8bit",
    "adamw8bit": "adam8bit",
    "pagedadamw8bit": "adam8bit",
    "pagedadamw": "adam",
    "paged_adamw_8bit": "adam8bit",
    "adamw_torch_8bit": "adam8bit",
    "ao_adamw_8bit": "adam8bit",
    "adafactor": "adafactor",
    "sgd": "sgd",
    "lion": "lion",
    "lion_32bit": "lion",
    "lion_8bit": "lion",
    "paged_lion_32bit": "lion",
    "paged_lion_8bit": "lion",
    "muon": "muon",
}
PAIRED = frozenset({"orpo", "simpo", "cpo"})
"""Objectives on pairs of answers that need no second model: one pass over both."""
REFERENCED = frozenset({"dpo", "ipo", "sigmoid", "hinge", "dpo_zero"})
"""Objectives on pairs of answers next to a frozen reference model."""
UNPACKED = "documents are not packed: each row counts as so many tokens, the longest it can be"
PAGED = "pages move to the host only while the device is full: counted as on the device"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterNames:
    """Names under which a format states its adapters."""

    rank: tuple[str, ...]
    targets: tuple[str, ...]
    dropout: tuple[str, ...]
    dora: tuple[str, ...]
    trained: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    """Weights that are no linear layers (fused experts)."""
    usual_rank: int = 8
    usual_targets: tuple[str, ...] = EVERY
    usual_dropout: float = 0.0
    usual_said: str = ""
    """Whose default these are."""


def base_model(launch: Launch, s: Settings, wanted: Wanted, *names: str) -> str | None:
    """Set the model that is tuned, by catalogue name; returns the format of its weights that the name says."""
    from windtunnel.errors import BadInput

    given = s.get(*names)
    said, line = s.said(*names)
    if wanted.model is not None:
        launch.named_model(wanted.model, "--model of windtunnel import")
        return named_format(str(given or ""), BASE)[1]
    if isinstance(given, str) and "$" in given and "$" not in (last := given.rstrip("/").rsplit("/", 1)[-1]):
        given = last  # a folder that is not known, and the name of the checkpoint in it
    if not isinstance(given, str) or not given or "$" in given:
        launch.wrong("--model", f"is required: the file names no model ({said})")
        return None
    format = named_format(given, BASE)[1]
    try:
        launch.checkpoint(given, said, line)
    except BadInput as error:
        launch.wrong(said, error.problems[0].rule, given, line)
    return format


def sequence_length(launch: Launch, s: Settings, wanted: Wanted, *names: str, usual: tuple[int, str]) -> None:
    """Set the tokens of a sequence: as asked for, as in the file, or the tool's own limit."""
    given = s.get(*names)
    value = None if given in (None, "", 0, -1) else s.number(*names)
    if wanted.seq_len is not None:
        launch.set("training.seq_len", wanted.seq_len, "--seq-len of windtunnel import")
    elif value is not None:
        s.put("training.seq_len", value, *names)
    elif given in (None, "", 0, -1):
        launch.assume("training.seq_len", *usual)


def batch(
    launch: Launch, s: Settings, wanted: Wanted, devices: int | None, inner: int, names: tuple[str, str], usual: int
) -> None:
    """Set micro-batch and batch from the sequences of a device and the accumulation steps.

    Args:
        launch: What is filled.
        s: Settings of the file.
        wanted: What the command line says.
        devices: Number of devices, where it is known.
        inner: Devices of one replica.
        names: Setting of the micro-batch, and of the accumulation steps.
        usual: The tool's default of the micro-batch.
    """
    micro_name, steps_name = names
    micro = usual if s.get(micro_name) in (None, "auto") else s.number(micro_name)
    steps = 1 if s.get(steps_name) in (None, "auto") else s.number(steps_name)
    if wanted.mbs is not None:
        launch.set("plan.mbs", wanted.mbs, "--mbs of windtunnel import")
        micro = wanted.mbs
    elif micro is not None and micro_name in s.values:
        s.put("plan.mbs", micro, micro_name)
    elif micro is not None:
        launch.assume("plan.mbs", micro, f"no {micro_name}: the default")
    if wanted.global_batch is not None:
        launch.set("training.global_batch", wanted.global_batch, "--global-batch of windtunnel import")
    elif micro and steps and devices is not None and devices % inner == 0:
        replicas = devices // inner
        how = f"micro-batch {micro} · accumulation {steps} · {replicas} replicas"
        launch.set("training.global_batch", micro * steps * replicas, how, s.said(steps_name)[1])
    launch.check_batch(devices, inner)


def optimizer(launch: Launch, s: Settings, name: str) -> None:
    """Set the optimizer; one that this model of a step lacks stays Adam, and is listed."""
    given = s.get(name)
    if given is None:
        return
    kind = str(given).rsplit(".", 1)[-1].casefold()
    if kind in OPTIMIZERS:
        s.put("training.optimizer", OPTIMIZERS[kind], name)
        if kind.startswith("paged"):
            s.leave(PAGED, name)
    else:
        s.leave("no such optimizer here: counted as Adam", name)


def adapters(launch: Launch, s: Settings, names: AdapterNames, base: str | None) -> None:
    """Set rank, targets, dropout and base format of low-rank adapters.

    Args:
        launch: What is filled.
        s: Settings of the file.
        names: Names of the settings.
        base: Format of the frozen weights; None: 16 bits.
    """
    rank = s.number(*names.rank)
    if rank is not None:
        s.put("training.lora.rank", rank, *names.rank)
    elif not any(name in s.values for name in names.rank):
        launch.assume("training.lora.rank", names.usual_rank, f"no {names.rank[0]}: {names.usual_said}")
    given = s.get(*names.targets)
    targets, ends = target_products(launch, s, given, names.targets)
    if s.get(*names.parameters) if names.parameters else None:
        targets = [*targets, "experts"]
    if targets:
        s.put("training.lora.targets", list(dict.fromkeys(targets)), *names.targets)
    elif given is None:
        said = f"no {names.targets[0]}: {names.usual_said}"
        usual = every_product(launch) if names.usual_targets == EVERY else list(names.usual_targets)
        launch.assume("training.lora.targets", usual, said)
    dropout = s.get(*names.dropout)
    if isinstance(dropout, int | float) and 0 < dropout < 1:
        s.put("training.lora.dropout", float(dropout), *names.dropout)
    elif dropout is None and names.usual_dropout:
        launch.assume("training.lora.dropout", names.usual_dropout, f"no {names.dropout[0]}: {names.usual_said}")
    if names.dora and s.switch(*names.dora):
        s.put("training.lora.dora", True, *names.dora)
    saved = s.items(*names.trained) if names.trained else None
    ends += [ENDS[name] for name in map(str, saved or []) if name in ENDS]
    for name in map(str, saved or []):
        if name not in ENDS:
            launch.leave(s.said(*names.trained)[0], name, s.said(*names.trained)[1], "of another part: left out")
    if ends:
        s.put("training.lora.trained", sorted(set(ends)), *names.trained, *names.targets)
    if base is not None:
        launch.set("training.lora.quantized_base", base, "format of the frozen weights")


def target_products(launch: Launch, s: Settings, given: Any, names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Products that a list, a word or a pattern of module names stands for, and ends of the model that it names."""
    if given in (None, "", []):
        return [], []
    words = [str(word) for word in given] if isinstance(given, list) else re.split(r"[,\s]+", str(given).strip())
    if [word.casefold().replace("_", "-") for word in words] in (["all"], ["all-linear"]):
        return every_product(launch), []
    found: list[str] = []
    for word in words:
        parts = _products_of(word)
        found += parts
        if not parts and word.rsplit(".", 1)[-1] not in ENDS:
            launch.leave(s.said(*names)[0], word, s.said(*names)[1], "no such product in the graph: no adapter there")
    ends = [end for word, end in ENDS.items() if any(word == w.rsplit(".", 1)[-1] for w in words)]
    if ends:
        launch.leave(s.said(*names)[0], ", ".join(ends), s.said(*names)[1], "adapters at the ends: left out")
    return found, []


def every_product(launch: Launch) -> list[str]:
    """Products next to which adapters stand where every linear layer has one, as far as the model has them."""
    from windtunnel import catalog

    name = launch.fields.get("model")
    if not isinstance(name, str):
        return list(EVERY)
    model = catalog.model(name)
    shared = bool(model.n_shared_experts or model.shared_expert_intermediate_size)
    there = {"mla_up_proj": model.is_mla, "shared_experts": shared}
    return [product for product in EVERY if there.get(product, True)]


def _products_of(word: str) -> list[str]:
    """Products of a module's name, or of a pattern over such names."""
    last = word.rsplit(".", 1)[-1].casefold()
    if last == "c_proj":
        return ["proj", "fc2"]
    if last in PARTS:
        return [PARTS[last]]
    if re.search(r"[\\|()*+?\[\]]", word):
        return [product for name, product in PARTS.items() if re.search(rf"(?<![a-z_]){name}(?![a-z_])", word)]
    return []


def offloading_checkpoints(launch: Launch, s: Settings, said: str) -> None:
    """Recompute every layer and keep its input in host memory."""
    s.put("plan.recompute.policy", "full", said)
    s.put("plan.offload.activations", 1.0, said)


def zero_by_name(name: str) -> tuple[int, bool] | None:
    """(ZeRO stage, whether tensors go to the host) that the name of a DeepSpeed file says."""
    found = re.search(r"(?:z(?:ero)?|stage)[-_]?([0-3])", Path(name).name.lower())
    offloaded = re.search(r"(?<!no)(?<!no[-_])offload", name.lower()) is not None
    return (int(found.group(1)), offloaded) if found else None


def deepspeed(launch: Launch, s: Settings, setting: str, name: str) -> None:
    """ZeRO stage and offloading of a DeepSpeed file, read where it lies next to the launch file, else by its name."""
    text, line = text_beside(launch.file, name), s.line(setting)
    stage: int | None = None
    if text is not None:
        try:
            zero = json_of(text).get("zero_optimization", {})
        except (ValueError, AttributeError):
            zero = {}
        stage = zero.get("stage")
        tiers = {
            field: isinstance(zero.get(part), dict) and zero[part].get("device") in ("cpu", "nvme")
            for part, field in (("offload_optimizer", "optimizer"), ("offload_param", "params"))
        }
    if not isinstance(stage, int):
        found = zero_by_name(name)
        if found is None:
            launch.wrong(
                setting, "is not in this file's folder, and its name states no ZeRO stage (zero2, z3)", name, line
            )
            return
        stage, offloaded = found
        tiers = {"optimizer": offloaded, "params": offloaded and stage == 3}
        launch.assumed.append(("plan.zero", str(stage), f"{name} is not in this file's folder; as its name says"))
    launch.set("plan.zero", stage, f"{setting}: {name}", line)
    for field, there in tiers.items():
        if there:
            launch.set(f"plan.offload.{field}", 1.0, f"{setting}: {name}", line)
    launch.set("training.framework", "deepspeed", f"{setting} is given", line)


def pairs(launch: Launch, name: str, line: int | None, *, reference: bool = False) -> None:
    """Count each pair of a preferred and a rejected answer as two sequences of the same pass.

    Args:
        launch: What is filled.
        name: Setting that asks for pairs.
        line: Its line.
        reference: A frozen reference model sees both answers too.
    """
    if reference:
        launch.set("training.reference_passes", 1, name, line)
    for field in ("plan.mbs", "training.global_batch"):
        if field in launch.fields:
            said = launch.origin[field][0]
            launch.set(field, 2 * launch.fields[field], f"{said}, two answers each ({name})", line)


def single_answers(launch: Launch, name: str, line: int | None) -> None:
    """KTO: mismatched answers pass too, and a frozen reference sees both, all without backward."""
    launch.set("training.reference_passes", 3, f"{name}: kto", line)


def cluster(
    launch: Launch, wanted: Wanted, per_node: tuple[int, str, int | None] | None, *, several: bool
) -> int | None:
    """One node unless stated otherwise; one device unless the file shards over several or says how many."""
    if wanted.nodes is None:
        launch.assumed.append(("cluster.nodes", "1", "not in the file; --nodes says otherwise"))
    if per_node is None and not several and wanted.devices_per_node is None:
        per_node = (1, "the file starts no second device", None)
        launch.assumed.append(("cluster.devices_per_node", "1", "not in the file; --devices-per-node says otherwise"))
    return launch.cluster(wanted, (1, "not in the file", None), per_node)


def refuse(launch: Launch, s: Settings, name: str, why: str) -> None:
    """Refuse a file for what a setting asks for."""
    launch.wrong(name, why, s.values.get(name), s.line(name))


def flags_of(words: Iterable[tuple[str, int]]) -> tuple[dict[str, Any], dict[str, int], list[tuple[str, int]]]:
    """Values and lines of `--name value …` options with underscores for hyphens, and the words in front of them."""
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    rest: list[tuple[str, int]] = []
    name: str | None = None
    for text, line in words:
        if re.match(r"--?[A-Za-z]", text):
            head, equals, value = text.lstrip("-").partition("=")
            name = head.replace("-", "_")
            values[name], lines[name] = (typed(value) if equals else True), line
        elif name is None:
            rest.append((text, line))
        elif values[name] is True:
            values[name] = typed(text)
        else:
            values[name] = [*(values[name] if isinstance(values[name], list) else [values[name]]), text]
    return values, lines, rest


def typed(text: str) -> Any:
    """A value of the command line as YAML would have it."""
    low = text.casefold()
    if low in ("true", "false"):
        return low == "true"
    if low in ("none", "null"):
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def given_length(launch: Launch, s: Settings, wanted: Wanted, *names: str) -> None:
    """Set the tokens of a sequence where a tool has no limit of its own; a problem where nothing states them."""
    if wanted.seq_len is None and s.get(*names) in (None, "", 0, -1):
        launch.wrong(names[0], "is required (tokens of a sequence), or --seq-len for windtunnel import")
        return
    sequence_length(launch, s, wanted, *names, usual=(1, ""))


def whole_batch(
    launch: Launch, s: Settings, wanted: Wanted, micro: tuple[str, ...], batch: tuple[str, ...], usual: tuple[int, int]
) -> None:
    """Set micro-batch and batch where a file states the sequences of a whole step.

    Args:
        launch: What is filled.
        s: Settings of the file.
        wanted: What the command line says.
        micro: Settings of the micro-batch.
        batch: Settings of the batch.
        usual: The tool's defaults of both; 0: it has none.
    """
    for field, given, names, default, option in (
        ("plan.mbs", wanted.mbs, micro, usual[0], "--mbs"),
        ("training.global_batch", wanted.global_batch, batch, usual[1], "--global-batch"),
    ):
        stated = s.get(*names)
        if given is not None:
            launch.set(field, given, f"{option} of windtunnel import")
        elif stated not in (None, "", "null"):
            s.take(field, *names)
        elif default:
            launch.assume(field, default, f"no {names[0]}: the tool's default")
        else:
            launch.wrong(names[0], f"is required, or {option} for windtunnel import")


def objective(launch: Launch, kind: str, said: str, line: int | None) -> None:
    """Count what an objective passes beside the answers of SFT: pairs, a reference model."""
    launch.objective = kind
    if kind == "kto":
        single_answers(launch, said, line)
    elif kind in PAIRED or kind in REFERENCED:
        pairs(launch, said, line, reference=kind in REFERENCED)
