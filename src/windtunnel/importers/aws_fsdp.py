"""The FSDP test case of AWS's distributed training samples (`train.py --max_context_width …`) as a scenario.

Names and defaults: aws-samples/awsome-distributed-training `3.test_cases/pytorch/FSDP/src/model_utils/arguments.py`.
"""

from __future__ import annotations

import re

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers import launched
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.program_lines import InOrder
from windtunnel.importers.settings import Settings
from windtunnel.importers.training_tables import dimensions

FORMAT = "aws_fsdp"
TITLE = "settings of AWS's FSDP test case"
OVER = ("llama_factory", "hf_trainer", "megatron", "megatron_bridge")
PROGRAM = InOrder(
    parts=(re.compile(r"torchrun\b"), re.compile(r"\btrain\.py(?=\s|$)")),
    later=re.compile(r"--max_context_width"),
    across=True,
)
MARKS = ("--max_context_width", "--hidden_width", "--num_heads")
DIMENSIONS = {
    "hidden_size": "hidden_width",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_key_value_heads",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "max_context_width",
}
VOCABULARIES = {"llama_v2": 32000, "llama_v3": 128256, "mistral": 32000, "mixtral": 32000, "gpt_neox": 50432}


def detect(text: str) -> bool:
    """Whether a text starts the test case: its own names of dimensions."""
    return all(mark in text for mark in MARKS) and "torchrun" in text and "add_argument" not in text


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a command; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    found = launched.find(text, launch, wanted.env, PROGRAM)
    if found is None:
        launch.wrong("", "starts the test case nowhere that can be read")
        return launch
    s = found.settings(launch)
    started = launched.started_by(found, launch, wanted)
    devices = launch.cluster(wanted, started.nodes, started.per_node)
    _model(launch, s, wanted)
    tune.given_length(launch, s, wanted, "max_context_width")
    launch.set("training.precision", "fp8" if s.get("fp8") in (1, True) else "bf16", *s.said("fp8"))
    launch.set("training.framework", wanted.framework or "fsdp1", "FSDP")
    kind = str(s.get("sharding_strategy") or "full")
    launch.set("plan.zero", {"full": 3, "hybrid": 3, "grad": 2, "none": 0}.get(kind, 3), *s.said("sharding_strategy"))
    launch.set("plan.dp", "auto", "devices")
    again = s.get("activation_checkpointing") not in (0, False)
    launch.set("plan.recompute.policy", "full" if again else "none", *s.said("activation_checkpointing"))
    if s.get("offload_activations") in (1, True):
        s.put("plan.offload.activations", 1.0, "offload_activations")
    if s.get("cpu_offload") in (1, True):
        s.put("plan.offload.params", 1.0, "cpu_offload")
    tune.batch(launch, s, wanted, devices, 1, ("train_batch_size", "(steps)"), 2)
    s.rest()
    return launch


def _model(launch: Launch, s: Settings, wanted: Wanted) -> None:
    kind = str(s.get("model_type") or "gpt_neox")
    if wanted.model is not None:
        launch.named_model(wanted.model, "--model of windtunnel import")
        s.get(*DIMENSIONS.values())
        return
    vocabulary = wanted.vocab_size or s.number("vocab_size") or VOCABULARIES.get(kind, 50432)
    more: dict[str, object] = {"family": "dense", "vocab_size": vocabulary}
    experts = s.number("num_experts") or 0
    if kind == "mixtral" and experts > 1:
        top = s.number("num_experts_per_tok") or 2
        width = s.number("intermediate_size")
        more |= {"family": "moe", "num_experts": experts, "num_experts_per_tok": top, "moe_intermediate_size": width}
    dimensions(launch, s, DIMENSIONS, more)
