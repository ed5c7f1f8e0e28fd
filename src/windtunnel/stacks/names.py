"""Names that people write for training frameworks, and the framework that each stands for."""

from __future__ import annotations

from functools import cache

from windtunnel.data_files import read_yaml
from windtunnel.stacks.defaults import plain
from windtunnel.stacks.stack_files import FRAMEWORKS, stack_file
from windtunnel.stacks.weight_formats import PRECISION, format_named, in_field


def framework_named(text: str) -> str | None:
    """The framework that a name stands for; None where no framework has it.

    Args:
        text: name in any case, with hyphens, underscores, dots or blanks between its words.
    """
    return _spellings().get(plain(text))


@cache
def _spellings() -> dict[str, str]:
    found = {plain(str(word)): name for name in FRAMEWORKS for word in stack_file(name).get("spellings", ())}
    return found | {plain(name): name for name in FRAMEWORKS}


def value_named(field: str, text: str) -> str:
    """What a scenario calls a value of a field of `training`; the value itself where nothing else is known.

    Args:
        field: name of the field.
        text: value as it is written.
    """
    if field == "precision":
        return in_field(format_named(text, PRECISION), PRECISION) or text
    return _values().get(field, {}).get(plain(text), text)


@cache
def _values() -> dict[str, dict[str, str]]:
    """Field → spelling → value."""
    table = read_yaml("stacks/spellings.yaml")
    return {field: {word: value for value, words in rows.items() for word in words} for field, rows in table.items()}
