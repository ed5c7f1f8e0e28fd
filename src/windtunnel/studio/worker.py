"""The process that predicts for the studio: questions as JSON lines in, answers as JSON lines out, reports as files.

It is killed where an answer takes too long or is no longer wanted; the server starts another.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windtunnel import api
from windtunnel.error_records import problems_of
from windtunnel.errors import BadInput, Problem
from windtunnel.scenarios.source import FieldsInFolder
from windtunnel.studio.explicit import explicit_values

_MOST_LOADS = 40
Asked = tuple[Any, tuple[str, ...]]


def _train(source: Any, sensitive: bool) -> Any:
    taken, settings, words = api.with_recommended_plan(source)
    chosen = api.chosen_by_planner(source, (), taken)
    result = api.simulate_training(
        taken, overrides=settings, sensitivities=sensitive, trace=sensitive, chosen_by_planner=chosen
    )
    return result, words


@dataclass(frozen=True, slots=True)
class WithCurves:
    """A step with its memory over time."""

    result: Any

    def to_dict(self) -> dict[str, Any]:
        """As `train --json --curves`, without the trace."""
        out: dict[str, Any] = self.result.to_dict(curves=True)
        return {name: value for name, value in out.items() if name != "trace"}


def _with_curves(source: Any, _: bool) -> Any:
    result, words = _train(source, True)
    return WithCurves(result), words


def _html_timeline(result: Any, path: Path) -> None:
    """The timeline alone, and beside it the trace for Perfetto."""
    from windtunnel.exporters import perfetto
    from windtunnel.views.timeline import timeline
    from windtunnel.views.view import View, sections
    from windtunnel.writers import html

    html.write(View(title=result.scenario_name or "Training step", sections=sections(timeline(result))), path)
    perfetto.write(result, path.with_suffix(".json"))


def _serve_curve(source: FieldsInFolder, options: dict[str, Any]) -> Any:
    """A load curve; without loads from the page, from a quarter to twice those of the scenario."""
    axis = str(options.get("axis") or "") or _loads(source)
    given = options.get("points")
    points = given if isinstance(given, int) and ".." in axis else None
    if points is not None and not 2 <= points <= _MOST_LOADS:
        raise BadInput(Problem("points", f"must be from 2 to {_MOST_LOADS}", points))
    return api.sweep_serving(source, axis, points=points)


@dataclass(frozen=True, slots=True)
class Explained:
    """The chain behind the figures of a verb, as `explain --json` prints it, and the data sheet of the device."""

    of: str
    chain: dict[str, Any] | None
    """None where the verb has none."""
    sheet: tuple[dict[str, Any], ...]
    """Values of the device's data sheet, each with its source."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"of": self.of, "chain": self.chain, "sheet": list(self.sheet)}


def _explained(source: FieldsInFolder, options: dict[str, Any]) -> Explained:
    """What stands behind the figures of a verb: of a run, the chain of its step; of a load curve, that of one load."""
    from windtunnel.studio.origins import at_load, data_sheet

    of = str(options.get("of") or "train")
    if of == "serve_curve" and isinstance(load := options.get("load"), int | float):
        source = FieldsInFolder(at_load(dict(source), str(options.get("axis")), float(load)), source.folder)
    chain: dict[str, Any] | None = None
    if of in ("serve", "serve_curve"):
        chain = api.explain_serving(source).to_dict()
    elif of in ("train", "run", "plan"):
        chain = api.explain(source).to_dict()
    return Explained(of, chain, data_sheet(source))


def _loads(source: FieldsInFolder) -> str:
    serving = source.get("serving")
    traffic = serving.get("traffic") if isinstance(serving, dict) else None
    if not isinstance(traffic, dict):
        raise BadInput(Problem("serving.traffic", "is required by a load curve"))
    if traffic.get("trace"):
        return "time_scale=0.25..2"
    for name, field in (("rate", "rate_per_s"), ("concurrency", "concurrency")):
        load = traffic.get(field)
        if isinstance(load, int | float) and load > 0:
            least = max(1, load // 4) if name == "concurrency" else load / 4
            return f"{name}={least:.9g}..{2 * load:.9g}"
    raise BadInput(Problem("serving.traffic", "has no load to vary; name loads such as rate=1..8"))


def _is_deployment(result: Any) -> bool:
    """Whether a plan is one of servers."""
    from windtunnel.planner.serving.plan_deployment import ServingPlan

    return isinstance(result, ServingPlan)


def _drawn(command: str, result: Any, report: Path) -> dict[str, Any] | None:
    """Write the report of a result; its view as data for the page, None of a command without a view."""
    from importlib import import_module
    from importlib.util import find_spec

    if find_spec(f"windtunnel.views.{command}") is None:
        import_module(f"windtunnel.report.{command}.html").write(result, report)
        return None
    from windtunnel.writers import html, studio

    view = import_module(f"windtunnel.views.{command}").view(result)
    html.write(view, report)
    return studio.plain(view, charts=True)


VERBS: dict[str, tuple[Callable[[Any, bool], Any], str]] = {
    "train": (_train, "train"),
    "timeline": (_train, "timeline"),
    "memory": (_with_curves, ""),
    "serve": (lambda source, _: (api.simulate_serving(source), ""), "serving"),
    "run": (lambda source, full: (api.simulate_run(source, sensitivities=full), ""), "run"),
    "cluster": (lambda source, _: (api.simulate_cluster(source), ""), "cluster"),
    "learn": (lambda source, _: (api.simulate_learning(source), ""), "learn"),
    "reason": (lambda source, _: (api.simulate_programs(source), ""), "reason"),
    "fit": (lambda source, _: (api.fit(source), ""), ""),
    "plan": (lambda source, _: (api.plan(source, explain=None), ""), "plan"),
    "advise": (lambda source, _: (api.advise(source), ""), "advise"),
}
"""Verb → (its call, the package of its report). `timeline` is `train` with its trace, `memory` with its curves."""


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """One answer.

    Args:
        question: id, verb, scenario (fields), folder; `report`: path to write the verb's HTML report to;
            `options`: of `serve_curve`, axis (as in `rate=1..8`) and points; of `explain`, the verb whose figures are
            asked for (`of`), and of a load curve axis and load.
    """
    begun = time.perf_counter()
    head = {"id": question.get("id"), "verb": question.get("verb")}
    try:
        source = FieldsInFolder(question["scenario"], Path(question["folder"]))
        report, view = question.get("report"), None
        if question["verb"] == "explain":
            (result, words), package = (_explained(source, question.get("options") or {}), ""), ""
        elif question["verb"] == "serve_curve":
            (result, words), package = (_serve_curve(source, question.get("options") or {}), ""), ""
        else:
            call, package = VERBS[question["verb"]]
            result, words = call(source, report is not None)
        if report is not None and package:
            if question["verb"] == "plan" and _is_deployment(result):
                package = "plan_serving"
            if package == "timeline":
                _html_timeline(result, Path(report))
            else:
                view = _drawn(package, result, Path(report))
        told = result.to_dict()
        return {
            **head,
            "ok": True,
            "result": told,
            "explicit": explicit_values(told.get("assumed") or (), question["scenario"], told.get("plan")),
            "note": words,
            "view": view,
            "has_report": bool(report is not None and package),
            "wall_s": time.perf_counter() - begun,
        }
    except Exception as error:
        problems, code = problems_of(error)
        return {**head, "ok": False, "problems": problems, "exit_code": code, "wall_s": time.perf_counter() - begun}


def main() -> None:
    """Answer lines until the input ends."""
    from windtunnel.training.results.serialise import plain

    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        for line in sys.stdin:
            out.write(json.dumps(plain(answer(json.loads(line))), ensure_ascii=False, allow_nan=False) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
