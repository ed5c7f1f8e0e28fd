"""What the readers of recipes share: devices, git, sections of a record and its file."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any

import yaml

from windtunnel.data_files import ROOT

DEVICES = {
    "h100": "h100-sxm-80gb",
    "b200": "b200-sxm-180gb",
    "b300": "b300-sxm-270gb",
    "gb200": "gb200",
    "gb300": "gb300",
    "vr200": "rubin",
    "r100": "rubin",
}
"""What launchers call a device → catalogue id."""


def git(repository: str, *words: str) -> str:
    """What a git command prints."""
    return subprocess.run(["git", "-C", repository, *words], capture_output=True, text=True, check=True).stdout


def nested(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Dotted fields of a scenario as its sections `training` and `plan`."""
    out: dict[str, dict[str, Any]] = {"training": {}, "plan": {}}
    for path, value in fields.items():
        section, *parents, last = path.split(".")
        place = out[section]
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return out["training"], out["plan"]


def content(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a record sets, without where it stands."""
    return {key: value for key, value in record.items() if key not in ("since", "source", "family", "function")}


def write(framework: str, file: str, origin: str, module: str, recipes: Mapping[str, list[dict[str, Any]]]) -> None:
    """Write a file of recipes: a line a record, so that one can be found without parsing the others."""
    folder = ROOT / "stacks/recipes" / framework
    folder.mkdir(parents=True, exist_ok=True)
    head = f"# Written by {module} from {origin}; facts, not its code.\n"
    lines = [f"{name}:\n" + "".join(f"- {_line(r)}\n" for r in own) for name, own in sorted(recipes.items())]
    (folder / f"{file}.yaml").write_text(head + "".join(lines), "utf-8")


def _line(record: Mapping[str, Any]) -> str:
    return yaml.safe_dump(
        dict(record), default_flow_style=True, width=1 << 20, sort_keys=False, allow_unicode=True
    ).strip()
