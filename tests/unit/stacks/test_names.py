"""Names that people write for software and formats."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from windtunnel.data_files import read_yaml
from windtunnel.scenarios.load import load_scenario
from windtunnel.specs.workload import TrainingSpec
from windtunnel.stacks.names import framework_named, value_named
from windtunnel.stacks.stack_files import FRAMEWORKS, stack_file


def training(**fields: Any) -> TrainingSpec:
    cluster = {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8}
    work = {"seq_len": 2048, "global_batch": 16, **fields}
    found = load_scenario({"model": "meta-llama/Llama-3.2-1B", "cluster": cluster, "training": work}).training
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("written", "framework"),
    [
        ("megatron", "megatron_core"),
        ("Megatron-LM", "megatron_core"),
        ("nemo", "nemo"),
        ("hf", "transformers"),
        ("Accelerate", "transformers"),
        ("maxtext", "jax"),
        ("Primus", "rocm_megatron"),
        ("fsdp2", "torchtitan"),
        ("megatron-bridge", "megatron_bridge"),
        ("GPT-NeoX", "megatron_deepspeed"),
    ],
)
def test_frameworks_by_usual_names(written: str, framework: str) -> None:
    assert framework_named(written) == framework == training(framework=written).framework


def test_no_spelling_stands_for_two_frameworks() -> None:
    words = [str(word) for name in FRAMEWORKS for word in (name, *stack_file(name).get("spellings", ()))]
    assert len(words) == len(set(words))
    assert framework_named("no such thing") is None


def test_values_by_usual_names_are_those_of_the_fields() -> None:
    found = training(optimizer="AdamW", precision="FP8_MX", attention="flash-attention-2", moe_dispatcher="a2a")
    assert (found.optimizer, found.precision, found.attention, found.moe_dispatcher) == (
        "adam",
        "mxfp8",
        "flash2",
        "alltoall",
    )
    for field, values in read_yaml("stacks/spellings.yaml").items():
        allowed = {w for part in (TrainingSpec.model_fields[field].annotation,) for w in _words(part)}
        assert set(values) <= allowed
    assert value_named("optimizer", "unheard of") == "unheard of"


def _words(annotation: Any) -> set[str]:
    parts = get_args(annotation)
    return {p for p in parts if isinstance(p, str)} | {w for p in parts if not isinstance(p, str) for w in _words(p)}


def test_four_bits_are_what_frozen_weights_are_stored_in() -> None:
    found = training(precision="int4", phase="lora", lora={"rank": 8})
    assert found.precision == "bf16" and found.lora is not None
    assert (found.lora.rank, found.lora.base_format) == (8, "int4")


@pytest.mark.parametrize(
    ("fields", "precision", "base"),
    [
        ({"precision": "int4", "phase": "lora"}, "bf16", "int4"),
        ({"precision": "int4", "lora": {"rank": 8}}, "bf16", "int4"),
        ({"precision": "bf16", "phase": "lora", "lora": {"rank": 8}}, "bf16", None),
        ({"precision": "bf16", "lora": {"rank": 8, "quantized_base": "nf4"}}, "bf16", "nf4"),
    ],
)
def test_four_bits_count_where_there_are_adapters(fields: dict[str, Any], precision: str, base: str | None) -> None:
    found = training(**fields)
    assert found.precision == precision
    assert found.lora is None or found.lora.base_format == base
