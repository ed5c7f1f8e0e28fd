"""The container file and the action name what is there: files, extras, verbs, options; the action's script runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

ROOT = Path(__file__).parents[2]
STUB = """#!/usr/bin/env python3
import json, sys
print(json.dumps(sys.argv[1:]))
"""


def options_of(*verb: str) -> set[str]:
    """Options of a verb."""
    from windtunnel.cli.main import app

    command: Any = get_command(app)
    for name in verb:
        assert name in command.commands, verb
        command = command.commands[name]
    return {text for parameter in command.params for text in (*parameter.opts, *parameter.secondary_opts)}


def called(text: str) -> list[list[str]]:
    """Calls of `windtunnel` in lines of shell, comments included, without what they end in."""
    found = re.findall(r"(?:^|\s)windtunnel ((?:[\w-]+)(?: [^\n&|]*)?)$", text, re.MULTILINE)
    return [shlex.split(call.replace("${BASELINE:+--baseline", "--baseline").replace("}", "")) for call in found]


def test_the_container_file_names_what_is_there() -> None:
    text = (ROOT / "Containerfile").read_text()
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        assert all((ROOT / source).exists() for source in sources.split())
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (named,) = re.findall(r"for extra in ([\w ]+);", text)
    assert named and set(named.split()) <= set(extras)
    assert {f"locks/{name}.txt" for name in named.split()} <= set(text.split())
    assert all("--require-hashes" in line or "--no-deps" in line for line in text.splitlines() if "pip install" in line)
    calls = [call for call in called(text) if call[0] != "RUN"]
    assert {call[0] for call in calls} == {"train", "studio", "doctor"}
    for verb, *words in calls:
        assert {word for word in words if word.startswith("--")} <= options_of(verb), verb
    user, warm = text.index("\nUSER windtunnel"), text.index("doctor --warm")
    assert user < warm < text.index("\nENTRYPOINT")
    assert not re.search(r"^USER root", text, re.MULTILINE)


def action() -> dict[str, Any]:
    """The action as data."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    return found


def test_the_action_names_what_is_there() -> None:
    own = action()
    used = set(re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", json.dumps(own["runs"])))
    assert used == set(own["inputs"])
    script = own["runs"]["steps"][-1]
    ((verb, *words),) = called(script["run"])
    assert {word for word in words if word.startswith("--")} <= options_of(verb)
    assert all(name in script["env"] for name in re.findall(r"\$\{?([A-Z]+)", script["run"]))


@pytest.mark.parametrize(
    ("paths", "baseline", "wanted"),
    [
        ("scenarios", "", ["check", "scenarios", "--require", "fits, mfu>0.4", "--tolerance", "0.02"]),
        (
            "a.yaml b.yaml\nmore\n",
            "my base.json",
            ["check", "a.yaml", "b.yaml", "more", "--require", "fits, mfu>0.4", "--tolerance", "0.02", "--baseline",
             "my base.json"],
        ),
    ],
)  # fmt: skip
def test_the_action_hands_its_inputs_on(tmp_path: Path, paths: str, baseline: str, wanted: list[str]) -> None:
    stub = tmp_path / "windtunnel"
    stub.write_text(STUB)
    stub.chmod(0o755)
    given = {"PATHS": paths, "REQUIRE": "fits, mfu>0.4", "BASELINE": baseline, "TOLERANCE": "0.02"}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", action()["runs"]["steps"][-1]["run"]],
        env={**given, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == wanted
