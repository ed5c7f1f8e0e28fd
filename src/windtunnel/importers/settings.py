"""Nested settings (JSON, TOML) by dotted name, each with its line, and which of them have been read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from windtunnel.importers.launch import Launch, unknown_option
from windtunnel.importers.severity import topic_of
from windtunnel.stacks.weight_formats import torch_dtype

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')
_TOML_TABLE = re.compile(r"\s*\[{1,2}\s*([^\[\]\s]+)\s*\]+")
_TOML_KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`; empty tables vanish."""
    out: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        out |= flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return out


def json_lines(text: str) -> dict[str, int]:
    """Dotted key → line of a JSON object."""
    lines: dict[str, int] = {}
    path: list[str] = []
    depth, last = [""], ("", 1)
    line, counted = 1, 0
    for match in _JSON_TOKEN.finditer(text):
        token = match.group()
        line, counted = line + text.count("\n", counted, match.start()), match.start()
        if token == "{" or token == "[":
            depth.append(".".join(path))
        elif token in "}]":
            depth.pop()
            path = depth[-1].split(".") if depth and depth[-1] else []
        elif token == ":":
            parent = depth[-1]
            path = [*([parent] if parent else []), last[0]]
            lines.setdefault(".".join(path), last[1])
        elif token != ",":
            last = (token[1:-1], line)
    return lines


def toml_lines(text: str) -> dict[str, int]:
    """Dotted key → line of a TOML file."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if found := _TOML_TABLE.match(line):
            table = found.group(1) + "."
            lines.setdefault(found.group(1), number)
        elif found := _TOML_KEY.match(line):
            lines.setdefault(table + found.group(1).strip("\"'"), number)
    return lines


@cache
def options(format: str) -> dict[str, Any]:
    """Data of a format: `no_bearing`, `not_modelled` and what else its file has."""
    path = Path(__file__).parent / "flags" / f"{format}.yaml"
    data: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return data


class Settings:
    """Typed access to the settings of one file."""

    def __init__(self, launch: Launch, values: Mapping[str, Any], lines: Mapping[str, int]) -> None:
        self.launch, self.values, self.lines = launch, dict(values), dict(lines)
        self.used: set[str] = set()

    def line(self, name: str) -> int | None:
        """Where a setting is."""
        return self.lines.get(name)

    def get(self, *names: str) -> Any:
        """The value under the first spelling that is given, or None; all spellings count as read."""
        self.used.update(names)
        return next((self.values[name] for name in names if name in self.values), None)

    def said(self, *names: str) -> tuple[str, int | None]:
        """(spelling, line) of the first that is given."""
        name = next((name for name in names if name in self.values), names[0])
        return name, self.line(name)

    def number(self, *names: str, least: int = 1) -> int | None:
        """An integer, or None; anything else is a problem."""
        value = self.get(*names)
        if value is None:
            return None
        whole = (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and (isinstance(value, int) or value.is_integer())
        )
        if not whole or value < least:
            name, line = self.said(*names)
            rule = f"must be an integer of at least {least}"
            if value == "auto":
                rule = "is left to the trainer; write a number"
            elif isinstance(value, str) and (unset := re.search(r"\$\{?(\w+)", value)):
                rule = f"is not known without running the script; --env {unset[1]}=… sets it"
            self.launch.wrong(name, rule, value, line)
            return None
        return int(value)

    def switch(self, *names: str) -> bool | None:
        """A boolean, or None."""
        value = self.get(*names)
        if value is not None and not isinstance(value, bool):
            name, line = self.said(*names)
            self.launch.wrong(name, "must be true or false", value, line)
            return None
        return value

    def choice(self, known: Mapping[str, Any], *names: str) -> Any:
        """What a name stands for in a table, or None; an unknown one is a problem."""
        value = self.get(*names)
        if value is None:
            return None
        if not isinstance(value, str) or value.casefold() not in {key.casefold() for key in known}:
            name, line = self.said(*names)
            self.launch.wrong(name, f"must be one of {', '.join(known)}", value, line)
            return None
        return next(meaning for key, meaning in known.items() if key.casefold() == value.casefold())

    def dtype(self, *names: str) -> str | None:
        """bf16, fp16 or fp32 of a dtype of torch; None where nothing or `auto` is said; any other is a problem."""
        value = self.get(*names)
        if value is None or value == "auto":
            return None
        found = torch_dtype(str(value))
        if found is None:
            name, line = self.said(*names)
            self.launch.wrong(name, "must be bfloat16, float16 or float32", value, line)
        return found

    def items(self, *names: str) -> list[Any] | None:
        """A list, or None; text is split at commas as the command line does it."""
        value = self.get(*names)
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        if value is not None and not isinstance(value, list):
            name, line = self.said(*names)
            self.launch.wrong(name, "must be a list", value, line)
            return None
        return value

    def put(self, path: str, value: Any, *names: str) -> None:
        """Set a field that a setting decided."""
        name, line = self.said(*names)
        self.launch.set(path, value, name, line)

    def take(self, path: str, *names: str, least: int = 1) -> int | None:
        """Put an integer into a field."""
        value = self.number(*names, least=least)
        if value is not None:
            self.put(path, value, *names)
        return value

    def leave(self, why: str, *names: str) -> None:
        """List a setting, when it is given, as not read."""
        value = self.get(*names)
        if value is not None:
            name, line = self.said(*names)
            self.launch.leave(name, str(value), line, why)

    def rest(self) -> None:
        """List what no field was made of. Tables in `no_bearing` end in a dot."""
        data = options(self.launch.format)
        others = dict.fromkeys(data.get("no_field", "").split(), "an option that is not followed")
        ignored, not_modelled = data["no_bearing"].split(), others | data["not_modelled"]
        known = sorted({*self.used, *ignored, *not_modelled})
        tables = tuple(entry for entry in ignored if entry.endswith("."))
        decides = data.get("decides", {})
        before = len(self.launch.unread)
        for name, value in self.values.items():
            if name in self.used:
                continue
            if name in not_modelled:
                why = f"no field in a scenario: {not_modelled[name]}"
                if value not in (False, None, "", 0, "none", []):
                    self.launch.leave(name, str(value), self.line(name), why, decides.get(name, ""))
                else:
                    self.launch.ignore(name, str(value), self.line(name))
            elif name in ignored or (any(map(name.startswith, tables)) and not _hidden(name, value)):
                self.launch.ignore(name, str(value), self.line(name))
            else:
                unknown_option(self.launch, name, str(value), self.line(name), known)
        self.launch.settings_known += len(self.values) - sum(left.unknown for left in self.launch.unread[before:])


def _hidden(name: str, value: Any) -> bool:
    """Whether a setting in a table of data or of a policy decides a prediction by its name all the same."""
    return name.startswith(("data.", "policy.")) and topic_of(name, value) is not None
