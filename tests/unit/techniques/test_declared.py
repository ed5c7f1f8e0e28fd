"""Techniques of files: fields as `Technique` has them, shared texts and cases, hooks of modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from windtunnel.techniques import REGISTRY, published
from windtunnel.techniques.base import Knob
from windtunnel.techniques.declared import declared
from windtunnel.techniques.learning_limits import QUALITY, limits_of
from windtunnel.techniques.published import zb_h1

FOLDER = Path(str(published.__file__)).parent


def test_every_module_holds_hooks_of_a_file() -> None:
    files = {path.stem.replace("-", "_") for path in FOLDER.glob("*.yaml")}
    modules = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert modules <= files and len(files) == len(REGISTRY)


def test_fields_of_a_file() -> None:
    found = declared(
        "diloco",
        {
            "mechanism": "what it does",
            "knobs": {"period": {"default": 100, "low": 1}, "kind": {"default": "a", "choices": ["a", "b"]}},
            "edits": [["plan", "shard"], ["learning", "algorithm diloco"]],
            "quality": "learning",
            "limits": {"case": "learning", "costly": {"period": 1}},
        },
    )
    assert found.knobs == {"period": Knob(100, 1), "kind": Knob("a", choices=("a", "b"))}
    assert found.edits == (("plan", "shard"), ("learning", "algorithm diloco"))
    assert found.quality == QUALITY and found.limits == limits_of({"period": 1})
    assert found.mechanism == "what it does"
    with pytest.raises(TypeError, match="knob"):
        declared("diloco", {"knob": {}})


def test_hooks_are_those_of_the_module() -> None:
    technique = REGISTRY.get("zb-h1")
    assert technique.plan is zb_h1.plan and technique.applies_to is zb_h1.applies_to
    assert technique.segment is None and technique.limit_cases is not None
