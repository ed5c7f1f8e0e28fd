"""Words for formats of numbers: one table, and what places that disagreed read by it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from windtunnel.catalog.checkpoints import named_format
from windtunnel.data_files import ROOT, parse_yaml, read_yaml
from windtunnel.importers.huggingface.quantization import stored_formats
from windtunnel.specs.serving import WeightFormat
from windtunnel.specs.workload import BaseFormat
from windtunnel.stacks.defaults import plain
from windtunnel.stacks.weight_formats import BASE, PRECISION, WEIGHTS, format_named, format_of_bits, in_field, served

TABLE: dict[str, Any] = read_yaml("stacks/weight_formats.yaml")
NARROW = (set(get_args(WeightFormat)) | set(get_args(BaseFormat)) | {"fp4", "q4_k"}) - {"bf16", "fp16"}
ELSEWHERE = {
    "importers/megatron_plan.py": "recipes of scaling under one option, `--fp8-recipe`",
    "importers/maxtext.py": "training recipes of the option `quantization`",
    "importers/nemo_automodel.py": "recipes of scaling under one option",
    "importers/lmdeploy_serve.py": "bits of the cache, no words",
    "exporters/servers/precision.py": "the other direction: the word in a checkpoint's name",
    "specs/number_formats.py": "which matrices a format multiplies",
}
"""Mappings to formats that read no words of weights."""
PATTERNS = "validation/rows/parsing/"
"""Regular expressions over the free text of published rows."""


def _mappings(tree: ast.AST) -> Iterator[dict[str, str]]:
    """Literal mappings that have two or more formats below 16 bits as values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            pairs = [
                (ast.unparse(key), value.value)
                for key, value in zip(node.keys, node.values, strict=True)
                if key is not None and isinstance(value, ast.Constant) and isinstance(value.value, str)
            ]
            if sum(value in NARROW for _, value in pairs) > 1:
                yield dict(pairs)


def _tables(data: Any) -> Iterator[dict[str, Any]]:
    if isinstance(data, dict):
        if sum(isinstance(v, str) and v in NARROW for v in data.values()) > 1 and not set(data) <= FIELDS:
            yield data
        for part in data.values():
            yield from _tables(part)
    elif isinstance(data, list):
        for part in data:
            yield from _tables(part)


FIELDS = {"weights", "experts", "attention", "ends", "kv_cache"}


def test_no_module_has_words_for_formats_of_its_own() -> None:
    found = {
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if any(_mappings(ast.parse(path.read_text("utf-8"))))
    }
    assert {name for name in found if not name.startswith(PATTERNS)} == set(ELSEWHERE)
    assert any(_mappings(ast.parse('WEIGHTS = {"awq": "w4a16", ("gptq", 8): "int8"}')))


def test_no_file_has_words_for_formats_of_its_own() -> None:
    found = {
        str(path.relative_to(ROOT))
        for folder in ("catalog", "importers", "questions", "stacks", "serving", "exporters")
        for path in (ROOT / folder).rglob("*.yaml")
        if path.parent.name not in ("models", "devices", "recipes")
        and any(_tables(parse_yaml(path.read_text("utf-8"))))
    }
    assert found == {"stacks/weight_formats.yaml"}


def test_every_word_stands_once() -> None:
    rows = TABLE["formats"]
    words = [plain(word) for name, row in rows.items() for word in (name, *row["words"])]
    assert sorted(words) == sorted(set(words))
    for name, place in TABLE["own"].items():
        assert place["source"]
        for word, format in place["words"].items():
            assert format is None or format in rows, (name, word)
            assert format_named(word) != format, f"{name}: {word} means the same everywhere"
    assert all(row["source"] for row in rows.values())
    for field in TABLE["fields"].values():
        assert set(field["calls"]) <= set(rows)


@pytest.mark.parametrize(
    ("word", "where", "format"),
    [
        ("FP4", "", "nvfp4"),
        ("fp4", "quark", "mxfp4"),
        ("fp4", "expert_dtype", "mxfp4"),
        ("fp8", "expert_dtype", None),
        ("MXFP8", "", "mxfp8"),
        ("Q4_K_M", "", "q4_k"),
        ("q4_0", "", "q4_0"),
        ("modelopt", "vllm", "fp8"),
        ("modelopt", "sglang", None),
        ("bitsandbytes", "tgi", "int8"),
        ("bitsandbytes", "vllm", None),
        ("awq_marlin", "vllm", "w4a16"),
        ("", "vllm", None),
    ],
)
def test_words(word: str, where: str, format: str | None) -> None:
    assert format_named(word, where) == format


@pytest.mark.parametrize(
    ("format", "weights", "base", "precision"),
    [
        ("mxfp8", "fp8", "mxfp8", "mxfp8"),
        ("nf4", "w4a16", "nf4", None),
        ("w4a16", "w4a16", "int4", None),
        ("q4_k", "q4_0", None, None),
        ("fp8_block", "fp8_block", "fp8", "fp8_block"),
        (None, None, None, None),
    ],
)
def test_fields_call_formats(format: str | None, weights: str | None, base: str | None, precision: str | None) -> None:
    assert [in_field(format, field) for field in (WEIGHTS, BASE, PRECISION)] == [weights, base, precision]


def test_bits_of_a_method() -> None:
    assert [format_of_bits(method, 4) for method in ("bnb", "hqq", "")] == ["nf4", "w4a16", "w4a16"]
    assert format_of_bits("gptq", 8) == format_of_bits("bnb", 8.0) == "int8"
    assert format_of_bits("gptq", 3) is format_of_bits("gptq", None) is format_of_bits("gptq", True) is None


def test_mxfp8_is_one_format_in_names_configurations_and_options() -> None:
    own = {"quant_method": "modelopt", "quant_algo": "MXFP8"}
    assert stored_formats({"quantization_config": own}) == {"weights": served("mxfp8")}
    assert named_format("org/model-MXFP8")[1] == served("modelopt_mxfp8", "vllm") == served("mxfp8") == "fp8"


def test_gguf_types_of_four_bits_are_served_alike() -> None:
    names = [named_format(f"org/model-{kind}-GGUF") for kind in ("q4_0", "Q4_K_M", "Q4_K_S")]
    assert names == [("org/model", "q4_0")] * 3


def test_blocks_of_fp8_in_a_name_are_those_of_the_configuration() -> None:
    group = {"weights": {"type": "float", "num_bits": 8, "strategy": "block"}, "targets": ["Linear"]}
    own = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}
    assert stored_formats({"quantization_config": own}) == {"weights": named_format("org/model-FP8-block")[1]}
    assert named_format("org/model-FP8-dynamic")[1] == "fp8"


def test_a_checkpoints_name_says_the_same_of_a_frozen_base() -> None:
    names = {"FP8": "fp8", "bnb-4bit": "nf4", "AWQ": "int4", "GPTQ-Int8": "int8", "NVFP4": "nvfp4", "BF16": None}
    assert {end: named_format(f"org/model-{end}", BASE)[1] for end in names} == names
