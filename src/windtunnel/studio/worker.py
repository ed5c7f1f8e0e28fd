"""The process that predicts for the studio: questions as JSON lines in, answers as JSON lines out, reports as files.

It is killed where an answer takes too long or is no longer wanted; the server starts another.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from windtunnel.child_processes import die_with
from windtunnel.commands import COMMANDS, meant_by
from windtunnel.commands.base import Listener
from windtunnel.error_records import problems_of
from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading
from windtunnel.files.scope import scratch_folder
from windtunnel.scenarios.read import parse_mapping
from windtunnel.scenarios.source import FieldsInFolder
from windtunnel.studio.explicit import explicit_values

MOST_SWEEP_CELLS = 2000
"""Cells of a sweep that is started from a page: it runs in one process."""


def _timeline(result: Any, path: Path) -> dict[str, Any]:
    """Write the timeline alone, and next to it the trace for Perfetto; the timeline as data for the page."""
    from windtunnel.exporters import perfetto
    from windtunnel.views.timeline import view
    from windtunnel.writers import html, studio

    drawn = view(result)
    html.write(drawn, path)
    perfetto.write(result, path.with_suffix(".json"))
    return studio.timeline(drawn)


@dataclass(frozen=True, slots=True)
class Explained:
    """The chain behind the figures of a command, as `explain --json` prints it, and the data sheet of the device."""

    of: str
    chain: dict[str, Any] | None
    """None where the command has none."""
    sheet: tuple[dict[str, Any], ...]
    """Values of the device's data sheet, each with its source."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"of": self.of, "chain": self.chain, "sheet": list(self.sheet)}


def _explained(source: FieldsInFolder, options: dict[str, Any]) -> Explained:
    """What stands behind figures: of a run, the chain of its step; of a load curve, that of one load."""
    from windtunnel.studio.origins import at_load, data_sheet

    of = str(options.get("of") or "train")
    if of == "serve_curve" and isinstance(load := options.get("load"), int | float):
        source = FieldsInFolder(at_load(dict(source), str(options.get("axis")), float(load)), source.folder)
    explained_by = COMMANDS.get(of).explained_by if of in COMMANDS else None
    chain = None if explained_by is None else explained_by(source).to_dict()
    return Explained(of, chain, data_sheet(source))


def _drawn(command: str, result: Any, report: Path) -> dict[str, Any]:
    """Write the report of a result; its view as data for the page."""
    from importlib import import_module

    from windtunnel.writers import html, studio

    view = import_module(f"windtunnel.views.{command}").view(result)
    html.write(view, report)
    return studio.plain(view, charts=True)


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """One answer.

    Args:
        question: of `task` ask, `words`; else the scenario as `text` or as fields (`scenario`), `folder` that its paths
            are relative to, `verb` (a command; absent: the one that the scenario means); `task`: `explain`, `export` or
            `sweep`, absent a prediction;
            `report`: path to write the command's HTML report to; `options`: of `serve_curve`, axis (as in `rate=1..8`)
            and points; of `explain`, of a load curve, axis and load; of `export`, target and wrapper;
            of `sweep`, vary, out and count (only what it would take).
    """
    begun, opened = time.perf_counter(), reading.opened()
    head = {"verb": question.get("verb")}
    try:
        if question.get("task") == "ask":
            return {"ok": True, **_asked(str(question["words"])), "wall_s": time.perf_counter() - begun}
        data = parse_mapping(question["text"], "scenario") if "text" in question else question["scenario"]
        verb = question.get("verb") or meant_by(data)
        head |= {"verb": verb, "fields": data}
        source, options = FieldsInFolder(data, Path(question["folder"])), question.get("options") or {}
        if question.get("task") == "export":
            return {"ok": True, **export(source, str(options.get("target")), options.get("wrapper"))}
        if question.get("task") == "sweep":
            return {"ok": True, **_swept(source, verb, options)}
        if question.get("task") == "explain":
            told = {"ok": True, **_explained(source, {**options, "of": verb}).to_dict()}
        else:
            report = question.get("report")
            told = {**head, "ok": True, **_predicted(source, verb, options, Path(report) if report else None)}
        kept = reading.opened() == opened and not question.get("report")
        return {**told, "wall_s": time.perf_counter() - begun, "may_be_kept": kept}
    except Exception as error:
        problems, code = problems_of(error)
        return {**head, "ok": False, "problems": problems, "exit_code": code, "wall_s": time.perf_counter() - begun}


def _asked(words: str) -> dict[str, Any]:
    """A question in words: the rows of its answer, and the scenario that it leaves behind as text."""
    from windtunnel.questions.ask import ask

    found = ask(words)
    told = found.to_dict()
    return {name: told[name] for name in ("words", "command", "verdict", "answer")} | {"text": found.scenario_text()}


def _swept(source: FieldsInFolder, verb: str, options: dict[str, Any]) -> dict[str, Any]:
    """A sweep in this process, whose rows go to a folder; or what it would take."""
    from windtunnel.sweeps.define import Asked, define
    from windtunnel.sweeps.estimate import estimate
    from windtunnel.sweeps.start import Where, start

    asked = Asked(source=source, vary=tuple(options["vary"]), verb=verb)
    definition = define(asked)
    if len(definition) > MOST_SWEEP_CELLS:
        rule = f"make more than {MOST_SWEEP_CELLS:,} cells, which the studio computes at most; start it in a terminal"
        raise BadInput(Problem("vary", rule, len(definition)))
    if options.get("count"):
        return asdict(estimate(definition))
    return {"cells": len(start(asked, options["out"], Where(processes=1)).definition)}


def _predicted(source: FieldsInFolder, verb: str, options: dict[str, Any], report: Path | None) -> dict[str, Any]:
    """The result of a command, and its report where one is asked for."""
    view, timeline, notes = None, None, list[str]()
    command = COMMANDS.get(verb, "verb")
    wanted = command.from_page(options) | (dict(command.for_report) if report is not None else {})
    result = command.run(source, full=report is not None, listener=Listener(note=notes.append), **wanted)
    shown = command.view_of(result)
    if report is not None and shown == "timeline":
        timeline = _timeline(result, report)
    elif report is not None and shown:
        view = _drawn(shown, result, report)
    told = result.to_dict()
    return {
        "result": told,
        "explicit": explicit_values(told.get("assumed") or (), dict(source), told.get("plan")),
        "note": "; ".join(notes),
        "view": view,
        "timeline": timeline,
        "fit": _fit(told.get("memory")),
        "has_report": bool(report is not None and shown),
    }


def _fit(memory: Any) -> tuple[str, str] | None:
    """The verdict on a step's memory in words, and its tone; None for other results."""
    from windtunnel.training.results.one_line import fit_tone, fit_words

    if not isinstance(memory, dict) or "fit_probability" not in memory:
        return None
    chance, fits = memory["fit_probability"], memory["fits"]
    return fit_words(chance, fits=fits), fit_tone(chance, fits=fits)


def export(source: FieldsInFolder, target: str, wrapper: Any) -> dict[str, Any]:
    """Launch files of a plan, as texts."""
    from windtunnel.commands.launch_files import write_launch_files

    with scratch_folder() as folder:
        done = write_launch_files(source, target, folder, wrapper=wrapper or "torchrun")
        texts = {path.name: path.read_text(encoding="utf-8") for path in done.files}
    return {"files": texts, "misfits": done.misfits, "unsupported": done.unsupported, "notes": done.notes}


def main() -> None:
    """Answer lines until the input ends."""
    from windtunnel.training.results.serialise import plain

    die_with(os.getppid())
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        for line in sys.stdin:
            out.write(json.dumps(plain(answer(json.loads(line))), ensure_ascii=False, allow_nan=False) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
