"""Shell completion of `--set`: fields of a scenario one level at a time, then the values that a field takes."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from windtunnel.cli import complete


def settings(incomplete: str) -> list[str]:
    """Settings that begin with what was typed: `plan.` → `plan.tp=` …; `plan.zero=` → `plan.zero=0` and so on."""
    field, equals, value = incomplete.partition("=")
    parts = field.split(".")
    records = _records_at(parts[:-1])
    if not equals:
        above = "".join(f"{part}." for part in parts[:-1])
        return [f"{above}{name}" for name in _names(records) if name.casefold().startswith(parts[-1].casefold())]
    known = _values(records, parts)
    return [f"{field}={one}" for one in known if one.casefold().startswith(value.casefold())]


@contextmanager
def words_of_bash() -> Iterator[None]:
    """Complete settings that bash has split at `=`: read them as one word, offer what stands behind the sign."""
    if os.environ.get("_WINDTUNNEL_COMPLETE") != "complete_bash":
        yield
        return
    words, at = os.environ.get("COMP_WORDS", "").split("\n"), int(os.environ.get("COMP_CWORD", "0"))
    joined: list[str] = []
    place, begins = at, ""
    for i, word in enumerate(words):
        if len(joined) > 1 and joined[-2] == "--set" and (word == "=" or joined[-1].endswith("=")):
            begins = joined[-1].partition("=")[0] + "=" if i == at else begins
            place -= i <= at
            joined[-1] += word
        else:
            joined.append(word)
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(place)
    offered = io.StringIO()
    try:
        with contextlib.redirect_stdout(offered):
            yield
    finally:
        sys.stdout.write("".join(line.removeprefix(begins) for line in offered.getvalue().splitlines(keepends=True)))


def _records_at(parts: list[str]) -> list[Any]:
    """The records that a path may lead to: several where a field is one or another."""
    from windtunnel.specs.scenario import Scenario

    found: list[Any] = [Scenario]
    for part in parts:
        found = [inner for record in found for inner in _inside(_annotation(record, part))]
    return found


def _annotation(record: Any, name: str) -> Any:
    fields = getattr(record, "model_fields", {})
    return fields[name].annotation if name in fields else record if name.isdigit() and fields else None


def _members(annotation: Any) -> list[Any]:
    """Forms of a union, without None; what is inside of `Annotated`."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _members(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [one for inner in typing.get_args(annotation) for one in _members(inner)]
    return [] if annotation is type(None) else [annotation]


def _inside(annotation: Any) -> list[Any]:
    """Records among the forms of a field, and entries of its lists."""
    found = []
    for one in _members(annotation):
        if typing.get_origin(one) is tuple:
            found += _inside(typing.get_args(one)[0])
        elif hasattr(one, "model_fields"):
            found.append(one)
    return found


def _names(records: Iterable[Any]) -> list[str]:
    """Fields of records: `tp=` for a value, `recompute.` for a record, `pools.0.` for the first of several."""
    found: dict[str, None] = {}
    for record in records:
        for name, field in record.model_fields.items():
            forms = _members(field.annotation)
            if any(typing.get_origin(one) is tuple and _inside(one) for one in forms):
                found[f"{name}.0."] = None
            elif _inside(field.annotation):
                found[f"{name}."] = None
            if any(not hasattr(one, "model_fields") and typing.get_origin(one) is not tuple for one in forms):
                found[f"{name}="] = None
            elif not _inside(field.annotation):
                found[f"{name}="] = None
    return list(found)


def _values(records: Iterable[Any], parts: list[str]) -> list[str]:
    """What a field takes: words of its type, names of the catalogue and of registries."""
    name, found = parts[-1], dict[str, None]()
    for record in records:
        for form in _members(_annotation(record, name)):
            if typing.get_origin(form) is typing.Literal:
                found |= dict.fromkeys(str(one) for one in typing.get_args(form))
            elif form is bool:
                found |= {"true": None, "false": None}
    path = ".".join(part for part in parts if not part.isdigit())
    return [*found, *(_NAMES[path]() if path in _NAMES else ())]


def _schedules() -> list[str]:
    from windtunnel import schedules

    return [*schedules.list_ids(), "auto"]


def _recompute() -> list[str]:
    from windtunnel.specs.plan import RECOMPUTE_MODULES

    return ["none", "selective", "full", *RECOMPUTE_MODULES]


def _routers() -> list[str]:
    from windtunnel.serving.routers.base import ROUTERS

    return list(ROUTERS.list())


def _queues() -> list[str]:
    from windtunnel.serving.event_loop.twin.queue import QUEUES

    return list(QUEUES.list())


def _policies() -> list[str]:
    from windtunnel.serving.batching.base import POLICIES

    return list(POLICIES.list())


def _admission() -> list[str]:
    from windtunnel.serving.admission.base import ADMISSION

    return list(ADMISSION.list())


_NAMES: dict[str, Callable[[], list[str]]] = {
    "model": lambda: complete.models(""),
    "cluster": lambda: complete.clusters(""),
    "cluster.device": lambda: [*complete.devices(""), "any"],
    "cluster.groups.device": lambda: complete.devices(""),
    "search.space.device": lambda: complete.devices(""),
    "plan.schedule": _schedules,
    "plan.recompute": _recompute,
    **dict.fromkeys([f"plan.{axis}" for axis in ("tp", "pp", "vpp", "cp", "ep", "dp", "mbs")], lambda: ["auto"]),
    "serving.router": _routers,
    "serving.pools.queue": _queues,
    "serving.pools.policy": _policies,
    "serving.pools.admission": _admission,
}
"""Field, without places in lists → names that it takes next to the words of its type."""
