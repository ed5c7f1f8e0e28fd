"""Every number of a scenario has a range in the schema, and none may be true or false."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.scenarios.load import load_scenario

BASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1},
    "training": {"seq_len": 4096, "global_batch": 8},
}


def numbers(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every place of the schema that takes a number."""
    if isinstance(schema, dict):
        if schema.get("type") in ("number", "integer") and not schema.keys() & {"enum", "const"}:
            yield path, schema
        for key, inner in schema.items():
            if key not in ("default", "examples", "enum", "const"):
                yield from numbers(inner, f"{path}.{key}")
    elif isinstance(schema, list):
        for place, inner in enumerate(schema):
            yield from numbers(inner, f"{path}.{place}")


def test_every_number_has_both_ends_of_its_range() -> None:
    found = list(numbers(api.scenario_schema()))
    assert len(found) > 600
    ends = ({"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"})
    assert not [path for path, schema in found if not all(end & schema.keys() for end in ends)]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("training.global_batch", True, "must be a number, not true"),
        ("training.seq_len", False, "must be a number, not false"),
        ("cluster.nodes", 1e30, "at most 18 digits"),
        ("cluster.memory_bytes_per_s", 3.7, "did you mean '3.7 TB/s'?"),
        ("cluster.memory_bytes_per_s", True, "must be a number, not true"),
        ("cluster.memory_bytes_per_s", 1e30, "must be at most"),
        ("cluster.memory_bytes", 80, "did you mean '80 GB'?"),
        ("cluster.price_per_device_hour", 1e30, "must be"),
        ("training.global_batch", 10**30, "must be at most 1000000000"),
    ],
)
def test_what_is_outside_is_one_line(field: str, value: Any, said: str) -> None:
    data = copy.deepcopy(BASE)
    section, name = field.split(".")
    data[section][name] = value
    with pytest.raises(BadInput) as refused:
        load_scenario(data)
    (problem,) = refused.value.problems
    assert problem.field == field and said in str(problem)
