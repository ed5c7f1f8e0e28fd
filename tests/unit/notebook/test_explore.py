"""`wt.explore`: a widget where anywidget is installed, else the prediction and a line."""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any

import pytest

import windtunnel as wt
from windtunnel.notebook import explore as module
from windtunnel.notebook.explore import MISSING, Explorer

FIELDS: dict[str, Any] = {
    "model": "Qwen/Qwen3-8B",
    "device": "h100-sxm-80gb",
    "nodes": 1,
    "seq_len": 4096,
    "global_batch": 64,
}


def test_without_anywidget_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    found = wt.explore(wt.scenario(**FIELDS, tp=2))
    assert isinstance(found, Explorer)
    shown = found._repr_html_()
    assert "pip install" in shown and "windtunnel[notebook]" in shown
    assert "step time" in shown
    assert shown.count("anywidget") == MISSING.count("anywidget") == 1


def test_values_change_the_prediction_and_what_cannot_be_is_told() -> None:
    found = Explorer(wt.scenario(**FIELDS, tp=2), module.TRAINING)
    assert found.answer.values["plan.tp"] == 2 and found.answer.values["cluster.nodes"] == 1
    other = found.changed({"plan.tp": 4})
    assert not other.failed and other.draft.resolved().plan.tp == 4
    assert other.draft.predict()._repr_html_().count("step time") == other.html.count("step time") > 0
    wrong = found.changed({"plan.tp": 3, "model": "<script>"})
    assert wrong.failed and "plan.tp" in wrong.html and "<script>" not in wrong.html
    assert not found.changed({"plan.tp": 2}).failed


def test_settings_of_a_draft_are_its_values() -> None:
    assert Explorer(wt.scenario(**FIELDS).with_("plan.tp=4"), module.TRAINING).answer.values["plan.tp"] == 4


class _Trait:
    def __init__(self, *_: Any) -> None:
        pass

    def tag(self, **_: Any) -> Any:
        return None


def _observe(name: str) -> Any:
    def keep(method: Any) -> Any:
        method.observes = name
        return method

    return keep


class _Widget:
    """What of anywidget and traitlets is used: traits as attributes, observers called when one is set."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value
        for method in vars(type(self)).values():
            if getattr(method, "observes", None) == name:
                method(self, {"new": value})


def test_with_anywidget_the_prediction_follows_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real packages where they are installed, else a plain stand-in."""
    if importlib.util.find_spec("anywidget") is None:
        traitlets = types.SimpleNamespace(List=_Trait, Dict=_Trait, Unicode=_Trait, observe=_observe)
        monkeypatch.setitem(sys.modules, "anywidget", types.SimpleNamespace(AnyWidget=_Widget))
        monkeypatch.setitem(sys.modules, "traitlets", traitlets)
        monkeypatch.setattr(module, "find_spec", lambda name: object())
    found: Any = wt.explore(wt.scenario(**FIELDS, tp=2))
    before = found.shown
    found.values = {**found.values, "plan.tp": 4}
    assert found.shown != before and found.draft.resolved().plan.tp == 4
    found.values = {**found.values, "plan.tp": 3}
    assert "plan.tp" in found.shown and 'role="alert"' in found.shown
    assert "export default" in type(found)._esm if isinstance(type(found)._esm, str) else found._esm
