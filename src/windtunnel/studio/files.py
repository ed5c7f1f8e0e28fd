"""Scenarios and sweeps below the folder that the studio was opened on. Pages know them by opaque ids."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windtunnel.commands import meant_by
from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading

MOST_FILES = 2000
MOST_BYTES = 1_000_000
MOST_WORDS = 110
_ID = re.compile(r"[0-9a-f]{16}")
_SKIPPED = {"node_modules", "__pycache__", ".git", ".venv", "cells", "quarantine"}


@dataclass(slots=True)
class Files:
    """What lies below a folder, looked up anew each time."""

    root: Path
    _known: dict[str, Path] = field(default_factory=dict)

    def listed(self) -> dict[str, list[dict[str, Any]]]:
        """Scenarios and sweeps, each with its id, path and time of change."""
        known: dict[str, Path] = {}
        scenarios, sweeps = [], []
        seen = 0
        for folder, names, files in os.walk(self.root, followlinks=False):
            place = Path(folder)
            if (place / "manifest.json").is_file() and (place / "cells").is_dir():
                sweeps.append(self._entry(place, known))
                names[:] = []
                continue
            names[:] = sorted(n for n in names if n not in _SKIPPED and not n.startswith("."))
            for name in sorted(files):
                path = place / name
                if path.suffix not in (".yaml", ".yml", ".json") or path.is_symlink():
                    continue
                if (head := _head(path)) and _is_scenario(head):
                    scenarios.append(self._entry(path, known) | _about(head))
                    seen += 1
            if seen >= MOST_FILES:
                break
        self._known = known
        return {"scenarios": scenarios, "sweeps": sweeps}

    def path(self, name: str) -> Path:
        """The file or folder of an id, links followed and held below the root.

        Raises:
            BadInput: no such id, or what it named has become a link to elsewhere.
        """
        if name not in self._known and _ID.fullmatch(name):
            self.listed()
        path = self._known.get(name)
        if path is None or not path.resolve().is_relative_to(self.root.resolve()):
            raise BadInput(Problem("id", "no such file below the folder of the studio", name))
        return path

    def shown(self, path: Path) -> str:
        """The path of a file below the root as text, whatever bytes its name has."""
        return os.fsencode(path.relative_to(self.root)).decode("utf-8", "replace")

    def _entry(self, path: Path, known: dict[str, Path]) -> dict[str, Any]:
        relative = str(path.relative_to(self.root))
        name = hashlib.blake2b(relative.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        known[name] = path
        return {"id": name, "path": self.shown(path), "changed": path.stat().st_mtime}


def _head(path: Path) -> bytes:
    """The first bytes of a file; empty where it is too large or cannot be read."""
    try:
        with reading.open_bytes(path) as stream:
            return stream.read(8192) if os.fstat(stream.fileno()).st_size <= MOST_BYTES else b""
    except (BadInput, OSError):
        return b""


def _is_scenario(head: bytes) -> bool:
    words = (b"cluster", b"learning", b"jobs", b"programs")
    return any(word in head for word in words) and (b"model" in head or b"jobs" in head or b"learning" in head)


_OF_EVERY_FILE = ("yaml-language-server", "Unknown fields are errors")
"""Beginnings of comments that `windtunnel init` writes into every file."""


def _first_words(text: str) -> str:
    """The first comment that tells of a file: no line for editors, and none that names a command."""
    for line in text.splitlines():
        words = line.removeprefix("#").strip()
        if line.strip() and not line.startswith("#"):
            break
        if words and not words.startswith(_OF_EVERY_FILE) and "windtunnel " not in words:
            return words
    return ""


def _made_of(text: str) -> str:
    """Devices and plan of a scenario, for a file that says nothing of itself."""
    found = {name: re.search(rf"\b{name}\s*:\s*([\w.-]+)", text) for name in ("device", "nodes", "tp", "pp", "zero")}
    told = {name: one[1] for name, one in found.items() if one}
    device = f"{told['nodes']} × {told['device']}" if {"nodes", "device"} <= told.keys() else told.get("device", "")
    return " · ".join(one for one in (device, *(f"{n} {told[n]}" for n in ("tp", "pp", "zero") if n in told)) if one)


def _about(head: bytes) -> dict[str, str]:
    """Verb, model and first words of a scenario, read off its first lines; guesses, for a list."""
    text = head.decode("utf-8", "replace")
    sections = set(re.findall(r"^(\w+)\s*:", text, re.MULTILINE))
    verb = meant_by(sections)
    model = re.search(r"^model\s*:\s*([\w./-]+)", text, re.MULTILINE)
    name = re.search(r"^name\s*:\s*(.+)", text, re.MULTILINE)
    words = _first_words(text) or (name[1].strip() if name else _made_of(text))
    if len(words) > MOST_WORDS:
        words = words[:MOST_WORDS].rsplit(" ", 1)[0] + " …"
    return {"verb": verb, "model": model[1] if model else "", "about": words}
