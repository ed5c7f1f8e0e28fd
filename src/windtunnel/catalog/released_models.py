"""Released models, one line each: `models.jsonl` of this package, and the file that `windtunnel catalog add` writes.

A line is a JSON object that begins with `name`, the repository of the checkpoint, and may go on with `aliases` and
`like`. With `like`, the checkpoint has the dimensions of that model (a fine-tune, another format); otherwise fields of
`ModelSpec` follow. Networks of family `composed` give their distinct layers as `blocks`, and as `depth` which of them
stand above each other. `formats` are fields of `serving.precision` that the checkpoint's own configuration states.
Nothing but names is parsed before a model is asked for.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.files.parsing import json_of
from windtunnel.files.reading import read_text
from windtunnel.files.scope import Scope, confined
from windtunnel.files.user_folders import config_folder
from windtunnel.files.writing import not_written, write_text

FILE = Path(__file__).parent / "models.jsonl"
_NAME = re.compile(r"[\w. /+:()-]{1,200}")
_MOST_BYTES = 16_000_000
"""Bytes of the user's file; a model without a base of its own has 1 kB, of unlike layers 20 kB."""
_HEAD = re.compile(r'^\{"name": "([^"\n]+)"(?:, "aliases": \[([^\]\n]*)\])?(?:, "like": "([^"\n]+)")?.*$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Line:
    """One released model, not yet parsed."""

    name: str
    aliases: tuple[str, ...]
    like: str | None
    """Model whose dimensions it has; None: its own are in the line."""
    text: str
    file: str
    """What problems name as its place."""


def users_file() -> Path:
    """The user's own models, below `XDG_CONFIG_HOME`, else `~/.config`."""
    return config_folder() / "models.jsonl"


@cache
def lines() -> dict[str, Line]:
    """Name → line; a model of the package goes before one of the user's that has its name."""
    found: dict[str, Line] = {}
    for text, shown in ((FILE.read_text("utf-8"), "catalog/models.jsonl"), (_users_text(), str(users_file()))):
        for head in _HEAD.finditer(text):
            name, aliases, like = head.groups()
            spellings = tuple(re.findall(r'"([^"]*)"', aliases or ""))
            found.setdefault(name, Line(name, spellings, like, head[0], shown))
    return found


def _users_text() -> str:
    """The user's own lines, whatever a server may read for others; empty where there are none that can be read."""
    file = Path(os.path.realpath(users_file()))
    if not file.exists():
        return ""
    try:
        with confined(Scope(readable=(file.parent,))):
            return read_text(file, "catalogue", most_bytes=_MOST_BYTES)
    except BadInput:
        return ""


def read(name: str) -> dict[str, Any]:
    """Fields of `ModelSpec`, and `aliases` and `formats` where the line has them.

    Raises:
        BadInput: the line is no such object.
    """
    data = _data(name)
    blocks, depth = data.pop("blocks", None), data.pop("depth", None)
    if blocks is not None:
        try:
            data["layers"] = [{"blocks": blocks[index]} for index in depth]
        except (TypeError, IndexError):
            raise BadInput(Problem("depth", "must hold places of `blocks`", name, file=lines()[name].file)) from None
    data["provenance"] = {"source": data.pop("source", ""), "as_of": data.pop("as_of", "")}
    return data


def formats(name: str) -> tuple[dict[str, str], str] | None:
    """Formats of weights that the configuration of a checkpoint states, and where that was read."""
    line = lines().get(name)
    if line is None or '"formats": {' not in line.text:
        return None
    data = _data(name)
    return data["formats"], data.get("source", "")


def _data(name: str) -> dict[str, Any]:
    line = lines()[name]
    try:
        data: dict[str, Any] = json_of(line.text)
    except ValueError as error:
        raise BadInput(Problem("model", f"is not JSON: {error}", name, file=line.file)) from None
    return data


def line_of(data: dict[str, Any]) -> str:
    """The line that stands for a model.

    Args:
        data: `name` and fields of `ModelSpec` as JSON, with `aliases`, `like`, `formats`, `source` and `as_of`.
    """
    data = {key: value for key, value in data.items() if value not in (None, {}, [], ())}
    layers = data.pop("layers", None)
    if layers:
        blocks: list[Any] = []
        depth: list[int] = []
        for layer in layers:
            if layer["blocks"] not in blocks:
                blocks.append(layer["blocks"])
            depth += [blocks.index(layer["blocks"])] * layer.get("repeat", 1)
        data |= {"blocks": blocks, "depth": depth}
    last = {key: data.pop(key) for key in ("formats", "source", "as_of") if key in data}
    first = {key: data.pop(key) for key in ("name", "aliases", "like") if key in data}
    return json.dumps({**first, **data, **last}, ensure_ascii=False)


def append(file: Path, data: dict[str, Any]) -> None:
    """Add a model to a file of lines, which is made where it is missing and is written whole or not at all.

    Raises:
        BadInput: the file holds something else or the model already, or cannot be written.
    """
    if not _NAME.fullmatch(data["name"]):
        raise BadInput(
            Problem(
                "name",
                "must be at most 200 letters, digits and characters of `._-/+:()`; --name gives another",
                data["name"],
            )
        )
    if os.path.islink(file):
        raise BadInput(Problem("catalogue", "is a link; name the file that it leads to", str(file)))
    text = read_text(file, "catalogue", most_bytes=_MOST_BYTES) if os.path.lexists(file) else ""
    heads = [_HEAD.fullmatch(line) for line in text.splitlines() if line.strip()]
    if None in heads:
        raise BadInput(Problem("catalogue", "holds lines that are no models and is left as it is", str(file)))
    if any(head is not None and head[1] == data["name"] for head in heads):
        raise BadInput(Problem("name", f"stands in {file} already; --name gives another", data["name"]))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_written(file, "catalogue", error) from None
    write_text(file, text + ("" if text.endswith("\n") or not text else "\n") + line_of(data) + "\n", "catalogue")
    lines.cache_clear()
