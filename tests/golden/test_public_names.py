"""Names that other people's code may use: none goes without a release in which the older name still works.

`public_names.json` is the list. `WINDTUNNEL_REGENERATE=1` adds what is new; what went is taken out by hand, when
the release named in `versions.RENAMED` is out.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import windtunnel
from windtunnel import versions
from windtunnel.registry import Registry
from windtunnel.versions import OlderName, Renamed

pytestmark = pytest.mark.golden

SOURCE = Path(windtunnel.__file__).parent
STORED = Path(__file__).with_name("public_names.json")
MODULES = ("windtunnel", "windtunnel.api")
GROUPS_OF_FILES = ("devices", "links", "clusters", "models", "option_lists")


def groups() -> list[str]:
    """Entry-point groups: the kinds of all registries, and those of files."""
    texts = [path.read_text("utf-8") for path in SOURCE.rglob("*.py") if "Registry(" in path.read_text("utf-8")]
    kinds = {kind for text in texts for kind in re.findall(r'= Registry\(\s*"(\w+)"', text)}
    assert kinds and issubclass(Registry, object)
    return sorted(f"windtunnel.{kind}" for kind in {*kinds, *GROUPS_OF_FILES})


def parameters(value: Any) -> list[str] | None:
    """Names of a function's parameters; None of what is no function."""
    return list(inspect.signature(value).parameters) if inspect.isfunction(value) else None


def present() -> dict[str, Any]:
    """What is public now."""
    found: dict[str, Any] = {"groups": groups(), "exit_codes": exit_codes()}
    for module in MODULES:
        names = import_module(module).__all__
        found[module] = {name: parameters(getattr(import_module(module), name)) for name in sorted(names)}
    return found


def exit_codes() -> dict[str, int]:
    """Error → exit code."""
    from windtunnel import errors

    kinds = [errors.BadInput, errors.Infeasible, errors.GateFailed]
    return {kind.__name__: kind.exit_code for kind in kinds}


def stored() -> dict[str, Any]:
    """The list."""
    listed: dict[str, Any] = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
    return listed


def _merged(listed: Any, now: Any) -> Any:
    """What is there now, and what was listed before."""
    return {**listed, **now} if isinstance(now, dict) and listed else now


def renamed(kind: str) -> set[str]:
    """Older names that still work."""
    return {one.old for one in versions.RENAMED if one.kind == kind}


def test_every_public_name_is_listed() -> None:
    now, listed = present(), stored()
    if os.environ.get("WINDTUNNEL_REGENERATE"):
        listed = {key: _merged(listed.get(key), value) for key, value in now.items()}
        STORED.write_text(json.dumps(listed, indent=1) + "\n", "utf-8")
    assert {key: _merged(listed[key], value) for key, value in now.items()} == listed, "see the head of this file"


def test_a_listed_name_that_went_still_works() -> None:
    now, listed = present(), stored()
    gone = {f"{module}.{name}" for module in MODULES for name in listed[module].keys() - now[module].keys()}
    assert gone <= renamed("name")
    assert set(listed["groups"]) == set(now["groups"])


def test_a_name_that_changed_works_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    table = [
        Renamed("name", "windtunnel.api.predict_step", "windtunnel.api.simulate_training", "0.3"),
        Renamed("name", "windtunnel.predict_step", "windtunnel.simulate_training", "0.3"),
    ]
    monkeypatch.setattr(versions, "RENAMED", table)
    monkeypatch.setattr(versions, "_WARNED", set())
    for module in MODULES:
        with pytest.warns(OlderName, match=rf"name '{module}.predict_step' is called '{module}.simulate_training'"):
            assert import_module(module).predict_step is windtunnel.simulate_training
        with pytest.raises(AttributeError, match="no_such_name"):
            _ = import_module(module).no_such_name


def test_older_names_end_with_the_release_that_their_entry_states() -> None:
    now = tuple(int(part) for part in windtunnel.__version__.split(".")[:2])
    over = [one for one in versions.RENAMED if tuple(int(part) for part in one.ends.split(".")[:2]) <= now]
    assert not over, "a release that was to end them is here: take them out, from the list too"
