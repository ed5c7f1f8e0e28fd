"""Flags of Megatron-LM's command line: their values and lines, and which of them have been read."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from windtunnel.files.parsing import whole_number
from windtunnel.importers.launch import Launch, unknown_option
from windtunnel.importers.shell import Word

_SHORT = {"-N": "--nodes"}


class Flags:
    """Flags with their values and lines, and which of them have been read."""

    def __init__(self, launch: Launch, words: list[Word]) -> None:
        self.launch = launch
        self.given: dict[str, tuple[list[str], int]] = {}
        self.used: set[str] = set()
        self.checkpoints: list[tuple[str, str]] = []
        """(checkpoint, variable that names it)."""
        self.programs = [word.text.rsplit("/", 1)[-1] for word in words if word.text.endswith(".py")]
        self.valued: set[str] = set()
        """Options of which a value was read; the others are switches."""
        name: str | None = None
        for word in words:
            text = _SHORT.get(word.text, word.text)
            if re.match(r"--[A-Za-z]", text):
                name, _, value = text[2:].partition("=")
                name = name if name in _underscored() else name.replace("_", "-")  # as forks spell options
                self.given[name] = ([value] if value else [], word.line)
            elif re.fullmatch(r"\$[\w@*]+", text) and (name is None or self.given[name][0]):
                launch.leave(text, "", word.line, "not set in the script, so what it adds is not read; --env sets it")
            elif name is not None and not re.fullmatch(r"\S+\.py|-[a-zA-Z]", text):
                self.given[name][0].append(text)
            else:
                name = None

    def sbatch(self, name: str, value: str, line: int) -> None:
        """Take the size of a Slurm job, unless the launcher says it."""
        name = {"N": "nodes"}.get(name, name)
        found = re.search(r"(\d+)$", value) if name in ("gres", "gpus-per-node") else None
        name, value = ("gpus-per-node", found.group(1)) if found else (name, value)
        if name in ("nodes", "gpus-per-node", "ntasks-per-node"):
            self.given.setdefault(name, ([value], line))

    def size(self, names: tuple[str, ...]) -> tuple[int, str, int | None] | None:
        """The first of several spellings of a count that is a plain number."""
        found = None
        for name in names:
            if name not in self.given:
                continue
            values, line = self.given[name]
            self.used.add(name)
            self.valued.add(name)
            if len(values) >= 1 and (whole_number(values[0]) or 0) > 0:
                found = found or (int(values[0]), f"--{name}", line)
            else:
                self.launch.leave(f"--{name}", " ".join(values), line, "not a number that the script sets")
        return found

    def present(self, *names: str) -> bool:
        """Whether one of several flags is given."""
        here = [name for name in names if name in self.given]
        self.used.update(here)
        return bool(here)

    def set_aside(self, *names: str) -> None:
        """Count flags and their values as read: something else decided, or they only say which release this is."""
        here = [name for name in names if name in self.given]
        self.used.update(here)
        self.valued.update(here)

    def line(self, name: str) -> int | None:
        """Where a flag is."""
        return self.given[name][1] if name in self.given else None

    def texts(self, name: str) -> list[str] | None:
        """The values of a flag; a problem when one of them is not known."""
        if name not in self.given:
            return None
        self.used.add(name)
        self.valued.add(name)
        values, line = self.given[name]
        for value in values:
            found = re.search(r"\$(\w+)|\$\{(\w+)\}|\$\(|`|\$\{", value)
            if found:
                unset = found.group(1) or found.group(2)
                how = f"--env {unset}=… sets it" if unset else "write the number"
                self.launch.wrong(f"--{name}", f"is not known without running the script; {how}", value, line)
                return None
        return values

    def text(self, name: str, *, choices: tuple[str, ...] = ()) -> str | None:
        """The one value of a flag, or None."""
        values = self.texts(name)
        if values is None:
            return None
        line = self.line(name)
        if len(values) != 1 and not (values and choices):
            self.launch.wrong(f"--{name}", "needs one value", " ".join(values), line)
            return None
        if choices and values[0] not in choices:
            same = [choice for choice in choices if choice.casefold() == values[0].casefold()]
            if len(same) == 1:  # forks take names in small letters
                return same[0]
            self.launch.wrong(f"--{name}", f"must be one of {', '.join(choices)}", values[0], line)
            return None
        return values[0]

    def number(self, name: str, *, least: int = 1) -> int | None:
        """The integer of a flag, or None."""
        value = self.text(name)
        if value is None:
            return None
        digits = value.replace("_", "")
        size = whole_number(digits.removeprefix("-"))
        number = None if size is None else -size if digits.startswith("-") else size
        if number is None or number < least:
            self.launch.wrong(f"--{name}", f"must be an integer of at least {least}", value, self.line(name))
            return None
        return number

    def real(self, name: str) -> float | None:
        """The number of a flag, or None."""
        value = self.text(name)
        try:
            return None if value is None else float(value)
        except ValueError:
            self.launch.wrong(f"--{name}", "must be a number", value, self.line(name))
            return None

    def take(self, path: str, name: str, *, least: int = 1) -> int | None:
        """Put the integer of a flag into a field."""
        value = self.number(name, least=least)
        if value is not None:
            self.launch.set(path, value, f"--{name}", self.line(name))
        return value

    def switch(self, path: str, value: Any, *names: str) -> bool:
        """Set a field when one of several flags is given."""
        for name in names:
            if self.present(name):
                self.launch.set(path, value, f"--{name}", self.line(name))
                return True
        return False

    def rest(self) -> None:
        """List what no field was made of: without bearing, not modelled, unknown."""
        ignored, not_modelled = known()
        read = sorted(self.used | ignored | set(not_modelled))
        before = len(self.launch.unread)
        for name, (values, line) in self.given.items():
            if name in self.used:
                for text in values if name not in self.valued else []:
                    why = "stands after a switch" if "$" not in text else "not set in the script; --env sets it"
                    self.launch.leave(text, "", line, why)
                continue
            value = " ".join(values)
            if name in not_modelled:
                self.launch.leave(f"--{name}", value, line, f"no field in a scenario: {not_modelled[name]}")
            elif name in ignored:
                self.launch.ignore(f"--{name}", value, line)
            else:
                unknown_option(self.launch, f"--{name}", value, line, [f"--{other}" for other in read])
        self.launch.settings_known += len(self.given) - sum(left.unknown for left in self.launch.unread[before:])


@cache
def _underscored() -> frozenset[str]:
    """Options that are spelt with underscores themselves."""
    ignored, not_modelled = known()
    others = {"nproc_per_node", "num_gpus", "num_nodes", "deepspeed_config"}
    return frozenset(name for name in {*ignored, *not_modelled, *others} if "_" in name)


@cache
def known() -> tuple[frozenset[str], dict[str, str]]:
    """(options without bearing, options not modelled and why)."""
    data = yaml.safe_load((Path(__file__).parent / "flags" / "megatron.yaml").read_text("utf-8"))
    others = dict.fromkeys(data["no_field"].split(), "an option that is not followed")
    return frozenset(data["no_bearing"].split()), others | data["not_modelled"]
