"""Data of other people: what is no data ends in one line, with the line where it is known."""

from __future__ import annotations

import pytest

from windtunnel.files.parsing import MOST_LEVELS, NotYaml, json_of, toml_of, yaml_nodes, yaml_of


@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_levels_of_json_are_counted_whatever_they_are_of(opens: str, closes: str) -> None:
    each = len(opens.replace('"a":', ""))
    fits = (MOST_LEVELS + 1) // each - (each == 1)
    assert json_of(opens * fits + "1" + closes * fits)
    with pytest.raises(ValueError, match=f"more than {MOST_LEVELS} levels"):
        json_of(opens * (fits + 2) + "1" + closes * (fits + 2))


def test_halves_of_surrogate_pairs_are_no_text() -> None:
    assert json_of('"\\ud83d\\ude00 ü"') == "\U0001f600 ü"
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        json_of('{"a": "\\ud800"}')
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        json_of('["\\udc00"]')


def test_tables_have_levels_too() -> None:
    assert toml_of("a = [[1]]") == {"a": [[1]]}
    with pytest.raises(ValueError, match="levels"):
        toml_of(f"a = {'[' * (MOST_LEVELS + 1)}{']' * (MOST_LEVELS + 1)}")


@pytest.mark.parametrize(
    ("text", "why", "line"),
    [
        ("a: 1\n---\nb: 2\n", "more than one document", 3),
        ("a: 1\nb: [1, 2\n", "did not find expected", 3),
        ("a: 2024-13-45\n", "month must be in", 1),
        ("a: !python/name:os.system\n", "could not determine a constructor", 1),
        ("? [1, [2]]\n: 3\n", "unhashable", 1),
    ],
)
def test_what_is_no_yaml_names_its_line(text: str, why: str, line: int) -> None:
    with pytest.raises(NotYaml, match=why) as found:
        yaml_of(text)
    assert found.value.line == line


def test_one_document_is_its_value_and_none_is_nothing() -> None:
    assert yaml_of("a: [1, {b: 2}]") == {"a": [1, {"b": 2}]}
    assert yaml_of("# nothing\n") is None
    assert len(yaml_nodes("a: 1\n---\nb: 2\n")) == 2


def test_aliases_count_as_what_they_stand_for() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for before, name in zip("abcd", "bcde", strict=True):
        bomb += f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    with pytest.raises(NotYaml, match="100,000 values"):
        yaml_of(bomb)
    with pytest.raises(NotYaml, match="values"):
        yaml_of("a: &a [*a]\n")
