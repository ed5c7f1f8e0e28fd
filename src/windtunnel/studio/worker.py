"""The process that predicts for the studio: questions as JSON lines in, answers as JSON lines out, reports as files.

It is killed where an answer takes too long or is no longer wanted; the server starts another.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from windtunnel import api
from windtunnel.error_records import problems_of
from windtunnel.errors import BadInput, Problem
from windtunnel.specs.source import FieldsInFolder

_MOST_LOADS = 40
Asked = tuple[Any, tuple[str, ...]]


def _train(source: Any, sensitive: bool) -> Any:
    taken, settings, words = api.with_recommended_plan(source)
    chosen = api.chosen_by_planner(source, (), taken)
    result = api.simulate_training(
        taken, overrides=settings, sensitivities=sensitive, trace=sensitive, chosen_by_planner=chosen
    )
    return result, words


def _serve_curve(source: FieldsInFolder, options: dict[str, Any]) -> Any:
    """A load curve; without loads from the page, from a quarter to twice those of the scenario."""
    axis = str(options.get("axis") or "") or _loads(source)
    given = options.get("points")
    points = given if isinstance(given, int) and ".." in axis else None
    if points is not None and not 2 <= points <= _MOST_LOADS:
        raise BadInput(Problem("points", f"must be from 2 to {_MOST_LOADS}", points))
    return api.sweep_serving(source, axis, points=points)


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


def _html(module: str, result: Any, path: Path) -> None:
    from importlib import import_module

    import_module(f"windtunnel.report.{module}.html").write(result, path)


VERBS: dict[str, tuple[Callable[[Any, bool], Any], str]] = {
    "train": (_train, "training"),
    "serve": (lambda source, _: (api.simulate_serving(source), ""), "serving"),
    "run": (lambda source, full: (api.simulate_run(source, sensitivities=full), ""), "run"),
    "cluster": (lambda source, _: (api.simulate_cluster(source), ""), "cluster"),
    "learn": (lambda source, _: (api.simulate_learning(source), ""), "learning"),
    "fit": (lambda source, _: (api.fit(source), ""), ""),
    "plan": (lambda source, _: (api.plan(source), ""), "plan"),
    "advise": (lambda source, _: (api.advise(source), ""), "advice"),
}
"""Verb → (its call, the package of its report)."""


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """One answer.

    Args:
        question: id, verb, scenario (fields), folder; `report`: path to write the verb's HTML report to;
            `options`: of `serve_curve`, axis (as in `rate=1..8`) and points.
    """
    begun = time.perf_counter()
    head = {"id": question.get("id"), "verb": question.get("verb")}
    try:
        source = FieldsInFolder(question["scenario"], Path(question["folder"]))
        report = question.get("report")
        if question["verb"] == "serve_curve":
            (result, words), package = (_serve_curve(source, question.get("options") or {}), ""), ""
        else:
            call, package = VERBS[question["verb"]]
            result, words = call(source, report is not None)
        if report is not None and package:
            if question["verb"] == "plan" and not hasattr(result, "proof"):
                package = "plan_serving"
            _html(package, result, Path(report))
        return {
            **head,
            "ok": True,
            "result": result.to_dict(),
            "note": words,
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
