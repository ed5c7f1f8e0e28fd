"""The commands of serving engines in a script: which words they get, as settings with their lines.

Options are named without dashes in front and with hyphens inside, whatever the spelling (`--tp_size` → `tp-size`); keys
of JSON values and of a YAML file next to the script follow a dot (`kv-transfer-config.kv-role`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windtunnel.files.parsing import NotYaml, json_of, yaml_of
from windtunnel.importers.inner_script import MOST_HANDED_OVER, inner_script
from windtunnel.importers.launch import Launch
from windtunnel.importers.launch_text import tidy, written_files
from windtunnel.importers.named_files import text_beside
from windtunnel.importers.settings import flatten
from windtunnel.importers.severity import hanging
from windtunnel.importers.shell import CONTINUED, Word, read_script

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG]?)")
_SCIENTIFIC = re.compile(r"\d+(\.\d+)?[eE][+-]?\d+")
_CONTAINER = re.compile(r"\b(?:docker|podman|nerdctl|singularity|apptainer)( container)?\s+(?:run|create)\b")
_MOST_OF_AN_IMAGE = 300
"""Characters of an image's name, its registry and its tag among them."""
_FACTOR = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2, "g": 1000**3, "G": 1024**3}
"""Factors of suffixes as vLLM reads them: small letters are decimal, capitals binary."""


LISTS = frozenset({"cudagraph-capture-sizes", "cuda-graph-sizes", "cuda-graph-bs", "cuda-graph-bs-decode"})
"""Options that take several words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """How a program is started."""

    patterns: tuple[re.Pattern[str], ...]
    """The words, joined by blanks, up to the program's own name."""
    images: re.Pattern[str] | None = None
    """Container images that start the program by themselves: `docker run IMAGE OPTIONS`."""
    short: Mapping[str, str] = field(default_factory=dict)
    """Short option → the long one."""

    def begin(self, words: list[Word]) -> int | None:
        """The first word after the program's name; None when the command starts something else."""
        joined = " ".join(word.text for word in words)
        for program in self.patterns:
            if match := program.search(joined):
                return len(joined[: match.end()].split())
        if self.images is None or not _CONTAINER.search(joined):
            return None
        for i, word in enumerate(words[:-1]):
            if self._image(word.text):  # with options after it; without them it opens a shell
                if not re.match(r"-|serve$|\$|[\w.-]+/[\w.-]+$|/(data|models?|mnt)/", words[i + 1].text):
                    return None
                return i + 2 if words[i + 1].text == "serve" else i + 1
        return None

    def _image(self, word: str) -> bool:
        """Whether a word names an image that starts the program."""
        return (
            self.images is not None
            and len(word) <= _MOST_OF_AN_IMAGE
            and bool(self.images.fullmatch(word.strip("'\"")))
        )

    def place(self, text: str) -> int | None:
        """Where a text starts the program first; None when it does not seem to."""
        found = [match.start() for pattern in self.patterns if (match := pattern.search(text))]
        if self.images is not None and _CONTAINER.search(text):
            end = len(text.rstrip())
            words = (match for match in re.finditer(r"\S+", text) if match.end() < end and self._image(match.group()))
            found += [match.start() for match in itertools.islice(words, 1)]
        return min(found, default=None)


@dataclass(slots=True)
class Command:
    """One start of a server."""

    program: Word = field(default_factory=lambda: Word("", 0))
    positional: list[Word] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


def commands(text: str, starts: Starts, launch: Launch, env: Mapping[str, str]) -> list[Command]:
    """Every command of a script that starts one of these programs.

    Args:
        text: the script.
        starts: what starts the program.
        launch: takes notes of what cannot be known without running the script.
        env: values of variables that come from outside.
    """
    given = {"INSTANCE": "0", "NODE_RANK": "0", "PORT": "8000", "LEADER": "leader", **env}
    found: list[Command] = []
    _collect(tidy(text), 0, starts, launch, given, found, iter(range(MOST_HANDED_OVER)))
    return found


def _collect(
    text: str,
    above: int,
    starts: Starts,
    launch: Launch,
    env: Mapping[str, str],
    found: list[Command],
    left: Iterator[int],
) -> None:
    """Add the commands of a script, and of the scripts that it hands to a shell.

    Args:
        text: the script.
        above: lines before it.
        starts: what starts the program.
        launch: takes notes.
        env: values of variables that come from outside.
        found: takes the commands.
        left: an item for each script that may still be handed to a shell.
    """
    script = read_script(text, env, file=launch.file)
    for what, line, why in script.notes:
        launch.leave(what, "", line + above, why)
    hanging(script, launch, above)
    variables = {name: " ".join(word.text for word in words) for name, words in script.variables.items()}
    for words in script.commands:
        words = [Word(word.text, word.line + above) for word in words]
        inner = inner_script(words)
        if inner is not None:
            if next(left, None) is None:
                launch.leave("bash -c", "", inner.line, f"the script hands more than {MOST_HANDED_OVER} to a shell")
            else:
                _collect(inner.text, inner.line - 1, starts, launch, {**variables, **env}, found, left)
            continue
        begin = starts.begin(words)
        if begin is not None:
            command = _command(words[begin:], starts.short, LISTS)
            command.program = words[min(max(begin - 1, 0), len(words) - 1)]
            found.append(command)


def _command(words: list[Word], short: Mapping[str, str], lists: frozenset[str]) -> Command:
    out, name = Command(), ""
    for word in words:
        text = short.get(word.text, word.text)
        if re.match(r"--[A-Za-z]", text):
            raw, _, value = text[2:].partition("=")
            name = canonical(raw)
            out.lines[name] = word.line
            out.values[name] = True
            if value:
                _take(out, name, value)
                name = ""
        elif text in ("$@", '"$@"'):
            name = ""
        elif name and name in lists:
            out.values[name] = [*(out.values[name] if isinstance(out.values[name], list) else []), typed(text)]
        elif name:
            _take(out, name, text)
            name = ""
        else:
            out.positional.append(word)
    return out


def _take(out: Command, name: str, text: str) -> None:
    value = typed(text.replace(CONTINUED, " "))
    if isinstance(value, dict):
        del out.values[name]
        for key, inner in _keys(value):
            out.values[f"{name}.{key}"] = inner
            out.lines[f"{name}.{key}"] = out.lines[name]
    else:
        out.values[name] = value


def canonical(name: str) -> str:
    """An option's name with hyphens."""
    return name.replace("_", "-")


def typed(text: str) -> Any:
    """A word as the number, truth value or table that it spells."""
    if text.startswith("{"):
        try:
            return json_of(text)
        except ValueError:
            return text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    match = _NUMBER.fullmatch(text)
    if match is None:
        return float(text) if _SCIENTIFIC.fullmatch(text) else text
    number = float(match.group(1)) * _FACTOR.get(match.group(2), 1)
    return int(number) if number.is_integer() and "." not in match.group(1) else number


def _keys(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in flatten(data).items():
        yield canonical(key), value


def from_yaml(text: str) -> Command | None:
    """Settings of a YAML file; None when it is no table of them."""
    try:
        data = yaml_of(text)
    except NotYaml:
        return None
    if not isinstance(data, dict):
        return None
    values: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            values |= {f"{canonical(str(key))}.{inner}": own for inner, own in _keys(value)}
        else:
            values[canonical(str(key))] = value
    lines: dict[str, int] = {}
    path: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"(\s*)([\w-]+)\s*:", line)
        if match:
            depth = len(match.group(1))
            path = [(at, name) for at, name in path if at < depth] + [(depth, canonical(match.group(2)))]
            lines[".".join(name for _, name in path)] = number
    return Command(values=values, lines=lines)


def add_file(command: Command, option: str, text: str, launch: Launch) -> None:
    """Add the settings of a file that an option names; options given win.

    Args:
        command: takes the settings.
        option: names the file, which the script writes with a here-document, or which lies next to it.
        text: the script.
        launch: takes the note that there is no such file.
    """
    named = command.values.pop(option, None)
    if named is None:
        return
    name = Path(str(named)).name
    made = None
    if written := written_files(text).get(name):
        made = from_yaml(written)
    elif (own := text_beside(launch.file, name)) is not None:
        made = from_yaml(own)
    if made is None:
        launch.leave(f"--{option}", str(named), command.lines.get(option), "a file that is not in the script's folder")
        return
    for key, value in made.values.items():
        command.values.setdefault(key, value)
        command.lines.setdefault(key, made.lines.get(key, 1))
