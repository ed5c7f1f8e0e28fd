"""Locks and the lowest allowed versions are those of pyproject.toml."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = sorted(path.stem for path in (ROOT / "locks").glob("*.txt") if path.stem != "lowest")


def project() -> dict[str, Any]:
    """The table [project]."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def normal(name: str) -> str:
    """A package's name as locks spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(name: str) -> dict[str, str]:
    """Package → version of a lock."""
    text = (ROOT / "locks" / f"{name}.txt").read_text("utf-8")
    return {normal(package): version for package, version in re.findall(r"^([\w.-]+)==([\w.+]+)", text, re.MULTILINE)}


def asked(name: str) -> dict[str, str]:
    """Package → what pyproject.toml asks of it, of the core and one extra, those that it names included."""
    own, out = project(), {}
    todo = list(own["dependencies"]) + list(own["optional-dependencies"].get(name, []))
    while todo:
        match = re.match(r"([\w-]+)(?:\[([\w,]+)\])?([^;]*)", todo.pop())
        assert match
        if match[1] == "windtunnel":
            todo += [one for extra in match[2].split(",") for one in own["optional-dependencies"][extra]]
        else:
            out[normal(match[1])] = match[3].strip()
    return out


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers, what follows them left out."""
    return tuple(int(part) for part in re.match(r"\d+(?:\.\d+)*", version)[0].split("."))  # type: ignore[index]


@pytest.mark.parametrize("name", [name for name in LOCKS if name != "build"])
def test_a_lock_has_every_package_at_a_version_that_is_allowed(name: str) -> None:
    versions = locked(name)
    for package, rule in asked(name).items():
        assert package in versions, f"locks/{name}.txt: run scripts/lock {name}"
        for sign, bound in re.findall(r"(>=|<)([\d.]+)", rule):
            assert (numbers(versions[package]) >= numbers(bound)) is (sign == ">="), (package, versions[package], rule)


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_the_versions_that_tests_were_run_with(name: str) -> None:
    text = (ROOT / "constraints.txt").read_text("utf-8")
    tested = {normal(package): version for package, version in re.findall(r"(?m)^([\w.-]+)==(\S+)", text)}
    other = {package: version for package, version in locked(name).items() if tested.get(package, version) != version}
    assert not other, f"run scripts/lock {name}"


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_hashes_and_names_no_index(name: str) -> None:
    text = (ROOT / "locks" / f"{name}.txt").read_text("utf-8")
    assert "://" not in text and "--index" not in text and "--find-links" not in text
    blocks = re.split(r"(?m)^(?=[\w.-]+==)", text)[1:]
    assert blocks and all("--hash=sha256:" in block for block in blocks)


def test_every_extra_has_a_lock() -> None:
    assert set(project()["optional-dependencies"]) <= set(LOCKS)


def test_the_lowest_versions_are_those_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    import pythons

    assert (ROOT / "locks" / "lowest.txt").read_text("utf-8") == pythons.lowest_versions(), "--write-lowest"
