"""JSON bodies of requests: objects of bounded size and depth with known fields; what is wrong is one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from windtunnel.errors import BadInput, Problem, nearest_name

MOST_LEVELS = 64
MOST_VALUES = 100_000


class Malformed(BadInput):
    """A request that no page sends."""

    status = 400


class NotThere(BadInput):
    """A request for what is not there."""

    status = 404


def object_of(body: bytes) -> dict[str, Any]:
    """The object of a body; an empty body is an empty object.

    Raises:
        Malformed: it is no object, not UTF-8, or holds what JSON or this server does not allow.
    """
    if not body:
        return {}
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise Malformed(Problem("body", f"must have at most {MOST_LEVELS} levels")) from None
    except (ValueError, UnicodeDecodeError) as error:
        why = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error).split("; use ")[0]
        raise Malformed(Problem("body", f"is not valid JSON: {why}")) from None
    if not isinstance(found, dict):
        raise Malformed(Problem("body", "must be a JSON object"))
    _check(found)
    return found


def with_fields(given: Mapping[str, Any], known: Mapping[str, type | tuple[type, ...]]) -> None:
    """Refuse fields that are not known, and values of another kind.

    Raises:
        Malformed: all of them.
    """
    problems = []
    for name, value in given.items():
        if name not in known:
            fields = f"must be one of {', '.join(known)}" if known else "is not asked for: this takes no fields"
            problems.append(Problem(name[:60], fields, nearest=nearest_name(name[:60], known)))
        elif not isinstance(value, known[name]) or (isinstance(value, bool) and known[name] is not bool):
            problems.append(Problem(name, f"must be {_KINDS.get(_first(known[name]), 'of another kind')}"))
    if problems:
        raise Malformed(problems[:10])


_KINDS: dict[type, str] = {str: "a text", dict: "a mapping", float: "a number"}


def _first(kind: type | tuple[type, ...]) -> type:
    return kind[0] if isinstance(kind, tuple) else kind


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _check(found: dict[str, Any]) -> None:
    """Refuse what is too deep or too much, and text that is no text."""
    level: list[Any] = [found]
    seen = depth = 0
    while level:
        depth, seen = depth + 1, seen + len(level)
        if depth > MOST_LEVELS or seen > MOST_VALUES:
            raise Malformed(Problem("body", f"must have at most {MOST_LEVELS} levels and {MOST_VALUES:,} values"))
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.keys()
                inner += one.values()
            elif isinstance(one, list):
                inner += one
            elif isinstance(one, str) and not one.isascii() and any("\ud800" <= c <= "\udfff" for c in one):
                raise Malformed(Problem("body", "must not hold half of a surrogate pair"))
        level = inner
