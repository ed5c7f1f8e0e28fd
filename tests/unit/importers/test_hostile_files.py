"""Files that were made to fail: each is refused in a line, or read with work in proportion to its length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from windtunnel.errors import BadInput
from windtunnel.files.parsing import json_of, toml_of, whole_number, yaml_of
from windtunnel.importers.formats import detect
from windtunnel.importers.manifests import container_text
from windtunnel.importers.megatron_plan import layout_counts

DEPLOYMENT = """kind: Deployment
spec:
  replicas: {copies}
  template:
    spec:
      containers:
      - name: v
        image: vllm/vllm-openai
        args: [--model, meta-llama/Llama-3.1-8B]
        resources: {{limits: {{nvidia.com/gpu: {devices}}}}}
"""


@pytest.mark.parametrize(("copies", "devices", "line"), [("9" * 5000, "1", 3), ("1", "9" * 16, 10)])
def test_a_count_with_too_many_digits_is_refused_with_its_line(copies: str, devices: str, line: int) -> None:
    with pytest.raises(BadInput, match=f"^line {line} = 9+…?: must be an integer of at most 15 digits$"):
        detect(DEPLOYMENT.format(copies=copies, devices=devices), "k.yaml")


def test_the_longest_count_that_is_read() -> None:
    text = container_text(DEPLOYMENT.format(copies="9" * 15, devices="1"))
    assert f"# pool v: {'9' * 15} of 1 devices" in text


@pytest.mark.parametrize("text", ["²", "१", "-1", "1_0", " 1", "1" + "0" * 15, "9" * 5000, ""])
def test_only_short_digits_are_a_whole_number(text: str) -> None:
    assert whole_number(text) is None


@pytest.mark.parametrize("read", [json_of, toml_of, yaml_of])
def test_an_integer_that_no_float_holds_is_refused(read: Callable[[str], Any]) -> None:
    spelled = {json_of: '{"a": [%s]}', toml_of: "a = [%s]", yaml_of: "a: [%s]"}[read]
    assert read(spelled % ("9" * 299)) == {"a": [10**299 - 1]}
    with pytest.raises(ValueError, match="an integer of more than 300 digits"):
        read(spelled % ("9" * 301))


def test_integers_in_other_bases_are_counted_too() -> None:
    for text in ("a: 0x" + "f" * 9000, "a: " + "9:" + ":".join(["59"] * 300)):
        with pytest.raises(ValueError, match="an integer of more than 300 digits"):
            yaml_of(text)
    with pytest.raises(ValueError, match="an integer of more than 300 digits"):
        toml_of("a = 0x" + "f" * 9000)


def test_a_layout_that_multiplies_itself_is_no_layout() -> None:
    assert layout_counts("Et*3|(tt|)*2,m|L") == [3, 2, 2, 0, 0]
    assert layout_counts("(" + "t" * 1000 + ")*4096") is None
    assert layout_counts("t*" + "9" * 5000) is None
