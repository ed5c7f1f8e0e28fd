"""Files that were made to fail: each is refused in a line, or read with work in proportion to its length."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from windtunnel import catalog
from windtunnel.catalog.checkpoints import listed_format, named_format, released_format
from windtunnel.catalog.model_names import checkpoint
from windtunnel.errors import BadInput
from windtunnel.files.parsing import json_of, toml_of, whole_number, yaml_of
from windtunnel.importers.formats import _readers, detect, read
from windtunnel.importers.launch import Wanted
from windtunnel.importers.manifests import container_text
from windtunnel.importers.megatron_plan import layout_counts
from windtunnel.importers.program_lines import InOrder
from windtunnel.importers.server_command import Command, Starts
from windtunnel.importers.server_fields import written_above, written_pools
from windtunnel.importers.shell import Word, read_script

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


def patterns() -> Iterator[re.Pattern[str]]:
    """Every pattern of a reader, those inside tables and records too."""
    waiting: list[object] = [vars(module) for module in _readers().values()]
    waiting += [vars(importlib.import_module(f"windtunnel.importers.{name}")) for name in ("shell", "manifests")]
    while waiting:
        one = waiting.pop()
        if isinstance(one, re.Pattern):
            yield one
        elif isinstance(one, InOrder):
            waiting += [*one.parts, one.later, one.otherwise]
        elif isinstance(one, Starts):
            waiting += [*one.patterns, one.images]
        elif isinstance(one, dict | tuple):
            waiting += one.values() if isinstance(one, dict) else one


def test_no_pattern_goes_over_line_breaks_from_the_start_of_each_line() -> None:
    found = {own.pattern for own in patterns()}
    assert len(found) > 60
    assert [own for own in found if r"^\s*" in own or r"^\s+" in own] == []


def test_gaps_between_launcher_script_and_option_are_no_part_of_a_pattern() -> None:
    """`launcher.*script.*option` tries each launcher of a line with all of its rest."""
    gaps = (r"\b.*?", r"[^\n]*?", r"\b.*\b", r"(?=.*")
    found = [own.pattern for own in patterns() if any(gap in own.pattern for gap in gaps)]
    assert [own for own in found if not own.startswith(("^", r"\b(?:["))] == []


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("torchrun train.py --max_context_width 5", "train.py"),
        ("torchrun a.py\ntrain.py --max_context_width 5", None),
        ("torchrun \\\n  train.py \\ \n --max_context_width 5\n", "train.py"),
        ("train.py torchrun --max_context_width 5", None),
        ("torchrun torchrun train.py", None),
        ("x\ntorchrun train.py --max_context_width \\", "train.py"),
        ("mytrain train.py", "mytrain"),
    ],
)
def test_parts_of_a_command_in_their_order(text: str, program: str | None) -> None:
    order = InOrder(
        parts=(re.compile(r"\btorchrun\b"), re.compile(r"\btrain\.py\b")),
        later=re.compile("--max_context_width"),
        otherwise=re.compile("mytrain"),
    )
    found = order.search(text)
    assert (found and found.group()) == program


def test_long_files_of_one_word_are_refused() -> None:
    """Ten times as long, each took minutes while a pattern tried every start with all of the rest."""
    for text in (
        "a:\n" + "\n" * 50_000,
        "image: " + "{{ " * 10_000 + "\nargs: x\n",
        "python -m " * 10_000,
        "torchrun train.py " * 5_000,
        "/main_" + "grpo" * 10_000 + "!",
        "cat <<E\n" + "\n" * 30_000,
        "X=" + "$((" * 5_000,
    ):
        with pytest.raises(BadInput, match="in no format that is recognised"):
            detect(text, "x.sh")


def test_helm_templates_become_placeholders() -> None:
    text = "image: {{ .Values.image }}:1\nargs:\n- --model\n- m/{{- .a }}-{{ .b -}}\n"
    assert '"m/$TEMPLATE-$TEMPLATE"' in container_text(text)


def test_a_condition_with_nested_repetitions_is_not_decided() -> None:
    script = read_script(f"if [[ {'a' * 60}! =~ (a+)+$ ]]; then\nX=1\nfi\nif [[ ab =~ ^a.*b$ ]]; then\nY=1\nfi\n", {})
    assert script.variables["Y"][0].text == "1"


def test_more_servers_than_are_read() -> None:
    with pytest.raises(BadInput, match=r"^starts 501 servers; at most 500 are read \(k.sh:1\)$"):
        launch = read(
            "vllm", "vllm serve meta-llama/Llama-3.1-8B\n" * 501 + "# pool a: 1 of 1 devices\n", "k.sh", Wanted()
        )
        raise BadInput(launch.problems)


def test_comments_of_pools_keep_their_lines() -> None:
    pools = written_pools("# pool a: 1 of 8 devices\nx\n# pool b: 2 of 4 devices, decode, 2 nodes\ny\n")
    assert [(own.line, own.copies, own.devices, own.part, own.nodes) for own in pools] == [
        (1, 1, 8, "", 1),
        (3, 2, 4, "decode", 2),
    ]
    assert [written_above(pools, Command(program=Word("vllm", line))) for line in (2, 3, 9)] == [
        pools[0],
        *pools[1:] * 2,
    ]
    assert written_above(pools[1:], Command(program=Word("vllm", 2))) is None


@pytest.mark.parametrize("name", ["llama-3-8b-" * 40, "-fp8" * 100, "1.1." * 100, "/" * 400 + "x", "a" * 200_000])
def test_long_names_are_refused_in_a_line(name: str) -> None:
    for resolve in (checkpoint, catalog.model, catalog.device, catalog.link, catalog.cluster):
        with pytest.raises(BadInput, match=r"is no name: it has .* characters, a name at most 300$") as caught:
            resolve(name)
        assert len(str(caught.value)) < 200
    assert (named_format(name), listed_format(name), released_format(name)) == ((name, None), None, None)


def test_control_characters_of_a_file_are_written_as_escapes() -> None:
    launch = read("vllm", "vllm serve \x1b[31mx\x07 --tensor-parallel-size \x1b[0m\n", "k\x1b.sh", Wanted())
    said = str(BadInput(launch.problems))
    assert "\\x1b[31mx" in said
    assert said.replace("\n", "").isprintable()


def test_arrays_hold_no_arrays() -> None:
    """A shell refuses `A=(B=(…`; read as arrays in arrays, a few hundred of them were too deep."""
    script = read_script("A=(" * 2000 + "x y)\nB=(one two)\ntorchrun train.py ${B[@]}\n", {})
    (command,) = [words for words in script.commands if words and words[0].text == "torchrun"]
    assert [word.text for word in command][2:] == ["one", "two"]
