"""A training file of FlagScale: tables of Megatron-LM's options, as a scenario.

Names and defaults: FlagOpen/FlagScale `examples/aquila/conf/train/7b.yaml` (commit 115f4c8d92ef). Options that the
tables do not give are Megatron-LM's own.
"""

from __future__ import annotations

from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.primus import megatron
from windtunnel.importers.training_tables import names_of, settings_of

FORMAT = "flagscale"
TITLE = "FlagScale training file"
OVER = ("megatron_bridge", "trl", "axolotl", "torchtune", "gpt_neox", "llama_factory")
OWN = frozenset({"system.tensor_model_parallel_size", "system.pipeline_model_parallel_size", "system.precision"})
ELSEWHERE = ("logging", "checkpoint", "optimizer.lr_scheduler", "data")
"""Tables whose settings have no bearing, beside the vocabulary."""


def detect(text: str) -> bool:
    """Whether a text is a training file of FlagScale."""
    if "system:" not in text or "model:" not in text:
        return False
    names = names_of(text)
    return bool(names & OWN) and "model.num_layers" in names


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s = settings_of(text, launch)
    settings, lines = {}, {}
    for name, value in s.values.items():
        section, _, rest = name.partition(".")
        plain = rest.rsplit(".", 1)[-1]
        if section not in ("system", "model", "data") or not rest:
            continue
        if any(part in name for part in ELSEWHERE) and plain not in (
            "vocab_size",
            "tokenizer_type",
            "padded_vocab_size",
        ):
            launch.ignore(name, str(value), s.line(name))
            continue
        settings[plain], lines[plain] = value, s.line(name) or 0
    megatron(launch, settings, lines, wanted, "", {})
    return launch
