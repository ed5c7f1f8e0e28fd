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

FILE = Path(__file__).parent / "models.jsonl"
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
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "windtunnel" / "models.jsonl"


@cache
def lines() -> dict[str, Line]:
    """Name → line; a model of the package goes before one of the user's that has its name."""
    found: dict[str, Line] = {}
    for file, shown in ((FILE, "catalog/models.jsonl"), (users_file(), str(users_file()))):
        try:
            text = file.read_text("utf-8")
        except (OSError, ValueError):
            continue
        for head in _HEAD.finditer(text):
            name, aliases, like = head.groups()
            spellings = tuple(json.loads(f"[{aliases}]")) if aliases else ()
            found.setdefault(name, Line(name, spellings, like, head[0], shown))
    return found


def read(name: str) -> dict[str, Any]:
    """Fields of `ModelSpec`, and `aliases` and `formats` where the line has them."""
    data: dict[str, Any] = json.loads(lines()[name].text)
    blocks, depth = data.pop("blocks", None), data.pop("depth", None)
    if blocks is not None:
        data["layers"] = [{"blocks": blocks[index]} for index in depth]
    data["provenance"] = {"source": data.pop("source", ""), "as_of": data.pop("as_of", "")}
    return data


def formats(name: str) -> tuple[dict[str, str], str] | None:
    """Formats of weights that the configuration of a checkpoint states, and where that was read."""
    line = lines().get(name)
    if line is None or '"formats": {' not in line.text:
        return None
    data = json.loads(line.text)
    return data["formats"], data.get("source", "")


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
    """Add a model to a file of lines, which is made where it is missing.

    Raises:
        BadInput: the file cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as stream:
            stream.write(line_of(data) + "\n")
    except OSError as error:
        raise BadInput(Problem("catalogue", f"cannot be written: {error.strerror}", str(file))) from None
    lines.cache_clear()
