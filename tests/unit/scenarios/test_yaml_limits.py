"""What a text may hold is counted while it is read: a large one is refused before anything is built of it."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml

from windtunnel.scenarios import yaml_text

LARGE = {
    "a flow list": "a: [" + "1," * 490_000 + "1]",
    "a list of lines": "a:\n" + "- 1\n" * 240_000,
    "mappings": "a: [" + "{a: 1}," * 120_000 + "]",
    "anchors": "a: [" + "&a 1," * 150_000 + "]",
    "tags": "a: [" + "!x 1," * 150_000 + "]",
    "names": "\n".join(f"k{i}: 1" for i in range(120_000)),
    "levels": "a: " + "[" * 900_000,
    "levels of lines": "- " * 450_000,
    "aliases": "a: &a [1]\nb: [" + "*a," * 200_000 + "]",
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_a_large_text_is_refused_after_few_events(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, parse = Counter[str](), yaml.parse

    def counted(*args: object, **options: object) -> object:
        for event in parse(*args, **options):
            seen["events"] += 1
            yield event

    monkeypatch.setattr(yaml, "parse", counted)
    monkeypatch.setattr(yaml, "compose", lambda *a, **k: pytest.fail("nodes were made"))
    (problem,) = yaml_text.parse(text).problems
    assert "at most" in problem.rule
    assert seen["events"] <= 4 * yaml_text.MAX_NODES


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a: " + "1:" * 300_000 + "1", "is not a valid number"),
        ("a: " + "1:" * 300 + "1.5", "is not a valid number"),
        ("a: " + "1" * 5000, "is not a valid number"),
        ("a: 0x" + "f" * 5000, "is not a valid number"),
        ("a: \ud800", "not valid YAML"),
        ("{" + "k" * 400_000 + ": {a: [1, 2]}}", "not valid YAML"),
        ("".join(f"{' ' * i}{'k' * 120}:\n" for i in range(20)), "at most 1000 characters"),
    ],
)
def test_numbers_and_names_have_a_length(text: str, rule: str) -> None:
    assert any(rule in problem.rule for problem in yaml_text.parse(text).problems)


@pytest.mark.parametrize("text", ["a: [1, 2", "a: {b: 1", "a: 'b", "a\n b: c", "a: *b", "a: \x07", "a: [A (B?)]"])
def test_short_texts_read_alike_with_either_parser(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = yaml_text.parse(text)
    monkeypatch.setattr(yaml_text, "_FAST", yaml.SafeLoader)
    slow = yaml_text.parse(text)
    if fast.problems:
        assert [str(one) for one in fast.problems] == [str(one) for one in slow.problems]


def test_numbers_with_exponents_are_numbers_with_either_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: 1e3\nb: '1e3'\nc: 26e-6\n"
    found = yaml_text.parse(text)
    assert found.data == {"a": 1000.0, "b": "1e3", "c": 26e-6}
    monkeypatch.setattr(yaml_text, "_FAST", yaml.SafeLoader)
    assert yaml_text.parse(text) == found
