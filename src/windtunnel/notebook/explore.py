"""`wt.explore(scenario)`: fields of a scenario next to its prediction, which follows them.

Where `anywidget` is installed (`pip install 'windtunnel[notebook]'`) fields can be changed in the notebook; elsewhere
the prediction is shown as it is, with one line that says so.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeGuard

from windtunnel.errors import WindtunnelError
from windtunnel.fluent import ScenarioDraft, scenario

MISSING = "To change fields here, install anywidget: pip install 'windtunnel[notebook]'"
TRAINING = ("plan.tp", "plan.pp", "plan.cp", "plan.ep", "plan.mbs", "plan.zero", "training.global_batch",
            "training.seq_len", "cluster.nodes")  # fmt: skip
SERVING = ("serving.traffic.rate_per_s", "serving.traffic.concurrency", "serving.traffic.num_requests")
"""Fields that are offered; all are numbers."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is shown for some values of the fields."""

    html: str
    draft: ScenarioDraft
    values: Mapping[str, Any]
    """Field → its value."""
    failed: bool = False


@dataclass(slots=True)
class Explorer:
    """A scenario and the answer to it; without anywidget also what a notebook shows."""

    draft: ScenarioDraft
    fields: tuple[str, ...]
    note: str = ""
    answer: Answer = field(init=False)

    def __post_init__(self) -> None:
        self.answer = self.changed({})

    def changed(self, values: Mapping[str, Any]) -> Answer:
        """The answer for other values; what is refused stands in the place of the prediction.

        Args:
            values: field → number, of `fields`; others are left out.
        """
        settings = [f"{name}={value}" for name, value in values.items() if name in self.fields and _is_number(value)]
        draft = self.draft.with_(*settings)
        try:
            shown, failed = draft.predict()._repr_html_(), False
        except WindtunnelError as error:
            lines = "<br>".join(html.escape(line) for line in str(error).splitlines())
            shown, failed = f'<div role="alert">{lines}</div>', True
        known = {name: _of(self.draft, name) for name in self.fields} | dict(values)
        self.answer = Answer(shown, draft, known, failed)
        return self.answer

    def _repr_html_(self) -> str:
        return f"{self.answer.html}<p><small>{html.escape(self.note)}</small></p>" if self.note else self.answer.html


def explore(source: str | Path | Mapping[str, Any] | ScenarioDraft, /, *settings: str, **fields: Any) -> Any:
    """A scenario in a notebook, with fields that can be changed.

    Args:
        source: path of a scenario file, a mapping of its fields, or a draft of `wt.scenario`.
        settings: `path.to.field=value`, as `--set` takes them.
        fields: as `wt.scenario` takes them.

    Returns:
        A widget where anywidget is installed; its trait `values` holds the fields, `draft` is the scenario as it is
        now. Elsewhere an `Explorer`, which a notebook shows without fields.

    Raises:
        BadInput: unknown keywords, or a file that cannot be read.
    """
    draft = (
        source.with_(*settings, **fields)
        if isinstance(source, ScenarioDraft)
        else scenario(source, *settings, **fields)
    )
    offered = SERVING if "serving" in draft.data else TRAINING
    if find_spec("anywidget") is None:
        return Explorer(draft, offered, MISSING)
    return _widget(Explorer(draft, offered))


def _widget(explorer: Explorer) -> Any:
    import anywidget
    import traitlets

    class Widget(anywidget.AnyWidget):  # type: ignore[misc]
        """Fields on the left, the prediction on the right."""

        _esm = resources.files("windtunnel.notebook").joinpath("explore.js").read_text("utf-8")
        fields = traitlets.List().tag(sync=True)
        values = traitlets.Dict().tag(sync=True)
        shown = traitlets.Unicode().tag(sync=True)

        @property
        def draft(self) -> ScenarioDraft:
            """The scenario as it is now."""
            return explorer.answer.draft

        @traitlets.observe("values")  # type: ignore[untyped-decorator]
        def _follow(self, change: Any) -> None:
            if change["new"] != explorer.answer.values:
                self.shown = explorer.changed({k: v for k, v in change["new"].items() if v is not None}).html

    start = explorer.answer
    return Widget(fields=list(explorer.fields), values=dict(start.values), shown=start.html)


def _of(draft: ScenarioDraft, path: str) -> float | int | None:
    """The number that a draft has at a path; None where there is none."""
    import yaml

    at: Any = draft.data
    for part in path.split("."):
        at = at.get(part) if isinstance(at, Mapping) else None
    for setting in draft.settings:
        name, _, written = setting.partition("=")
        at = yaml.safe_load(written) if name.strip() == path else at
    return at if _is_number(at) else None


def _is_number(value: Any) -> TypeGuard[float | int]:
    return isinstance(value, int | float) and not isinstance(value, bool)
