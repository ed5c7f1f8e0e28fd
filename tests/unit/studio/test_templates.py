"""Scenarios that the studio begins with."""

from __future__ import annotations

import re
from importlib.resources import files as resources

import pytest

from windtunnel.scenarios.read import parse_mapping
from windtunnel.studio.worker import answer

_SCRIPT = resources("windtunnel.studio").joinpath("static", "state.js").read_text(encoding="utf-8")
TEXTS = dict(re.findall(r"^(?:export const |  )(\w+)(?: = |: )`(.*?)`", _SCRIPT, re.DOTALL | re.MULTILINE))


def test_every_kind_has_one() -> None:
    assert set(TEXTS) == {"START", "serving", "run", "learning", "reasoning"}


@pytest.mark.parametrize("name", [name for name in sorted(TEXTS) if "training" in parse_mapping(TEXTS[name], name)])
def test_steps_of_templates_fit(name: str) -> None:
    told = answer({"text": TEXTS[name], "folder": "/", "verb": "train"})
    assert told["fit"][1] == "good"
