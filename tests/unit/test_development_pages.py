"""Pages for developers name files, modules and functions that are there."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "development"
FOLDERS = [ROOT, ROOT / "src", ROOT / "src" / "windtunnel", ROOT / "tests", ROOT / "workshop" / "windtunnel_lab"]
"""Where a path on a page may begin."""


def quoted(text: str) -> Iterator[str]:
    """Texts between backticks."""
    for line in text.splitlines():
        yield from re.findall(r"`([^`]+)`", line)


def paths(text: str) -> set[str]:
    """Paths that a text names, those of a new file (`<name>.py`, `*.yaml`) as the folder that it comes into."""
    out = set()
    for one in quoted(text):
        if re.fullmatch(r"[\w./<>*-]+", one) and ("/" in one or one.endswith((".py", ".yaml"))):
            known = re.split(r"[<*]", one)[0]
            out.add(known if known == one else known.rpartition("/")[0])
    return out - {""}


def missing(text: str) -> list[str]:
    return sorted(path for path in paths(text) if not any((folder / path).exists() for folder in FOLDERS))


def names(text: str) -> set[str]:
    """Dotted names of modules, and of what they hold."""
    found = (re.match(r"([a-z_]\w*(?:\.\w+)+)(?=$|[(\s])", one) for one in quoted(text))
    return {match[1] for match in found if match}


def resolves(name: str) -> bool:
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        for package in ("windtunnel.", "windtunnel_lab.", ""):
            try:
                value = importlib.import_module(package + ".".join(parts[:n]))
            except ImportError:
                continue
            for part in parts[n:]:
                value = getattr(value, part, None)
            if value is not None:
                return True
    return False


def section(page: str, title: str) -> str:
    """The part of a page under a title."""
    return (PAGES / page).read_text("utf-8").partition(f"\n## {title}")[2].partition("\n## ")[0]


def test_what_is_missing_is_found() -> None:
    assert missing("`graph/`, `graph/gone.py`, `schedules/<name>.py`, `gone/<name>.py`") == ["gone", "graph/gone.py"]
    assert resolves("catalog.resolve_cluster") and not resolves("catalog.gone") and not resolves("gone.model")
    assert names("`catalog.model(name)`, `api.py`, `plan.tp`") >= {"catalog.model"}


def test_files_of_contracts_exist() -> None:
    assert missing((PAGES / "contracts.md").read_text("utf-8")) == []


def test_names_of_contracts_exist() -> None:
    text = re.sub(r"`[\w./<>-]+\.(py|yaml|toml)`", "", (PAGES / "contracts.md").read_text("utf-8"))
    assert [name for name in sorted(names(text)) if not resolves(name)] == []


def test_files_to_start_with_exist() -> None:
    where = section("architecture.md", "Where to start for")
    assert len(paths(where)) > 30
    assert missing(where) == []
