"""The registry that finds one-file entries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windtunnel.errors import BadInput
from windtunnel.registry import Registry


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package with three entries, one of them in a sub-package, and a private module."""
    root = tmp_path / "wt_entries"
    (root / "sub").mkdir(parents=True)
    (root / "__init__.py").write_text(
        "from windtunnel.registry import Registry\nR = Registry('things', package=__name__, recursive=True)\n"
    )
    for path, id in (("one.py", "one"), ("two_b.py", "two-b"), ("sub/three.py", "three")):
        (root / path).write_text(f"from wt_entries import R\n@R.register('{id}', '{id}-alias')\nclass Entry: ...\n")
    (root / "sub" / "__init__.py").write_text("")
    (root / "_private.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "wt_entries"
    for name in [n for n in sys.modules if n.split(".")[0] == "wt_entries"]:
        del sys.modules[name]


def test_only_what_is_asked_for_is_imported(package: str) -> None:
    registry = __import__(package).R
    assert registry.get("two-b").__module__ == f"{package}.two_b"
    assert f"{package}.one" not in sys.modules
    assert registry.list() == ("one", "three", "two-b")
    assert [id for id, _ in registry.items()] == list(registry) == ["one", "three", "two-b"]
    assert registry.get("three-alias") is registry.get("three")
    assert "one" in registry and "four" not in registry and 4 not in registry


def test_an_unknown_id_names_the_nearest(package: str) -> None:
    with pytest.raises(BadInput) as caught:
        __import__(package).R.get("thre", field="plan.thing")
    (problem,) = caught.value.problems
    assert (problem.field, problem.value, problem.nearest) == ("plan.thing", "thre", "three")
    assert "one, three, two-b" in problem.rule


def test_two_entries_may_not_share_an_id() -> None:
    registry: Registry[object] = Registry("things")
    first = registry.add("a", object(), aliases=("b",))
    assert registry.add("a", first) is first
    for id in ("a", "b"):
        with pytest.raises(ValueError, match="registered twice"):
            registry.add(id, object())


def test_other_distributions_add_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name = "theirs"

        @staticmethod
        def load() -> object:
            return "entry"

    asked: list[str] = []
    monkeypatch.setattr("windtunnel.registry.entry_points", lambda group: asked.append(group) or [Point])
    registry: Registry[object] = Registry("things")
    assert registry.get("theirs") == "entry"
    assert registry.list() == ("theirs",)
    assert asked == ["windtunnel.things"]


def test_the_techniques_are_found_by_their_own_id() -> None:
    from windtunnel.techniques import REGISTRY

    assert len(REGISTRY) >= 3
    assert all(entry.id == id for id, entry in REGISTRY.items())
