"""Questions as JSON lines, answered one after another in one warm process.

```
{"id": 1, "verb": "train", "scenario": "my.yaml", "set": {"plan.tp": 8}}
{"id": 2, "verb": "serve", "scenario": {"model": …}}
```

Each line has one answer, in the same order: `{"id": 1, "ok": true, "verb": "train", "result": {…}, "wall_s": 0.05}`, or
`"ok": false` with `problems` as `--json` prints them and the `exit_code` of the command. A wrong line stops nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from windtunnel.commands import COMMANDS, asked_by_name
from windtunnel.error_records import problems_of
from windtunnel.errors import BadInput, Problem, ProblemList, nearest_name
from windtunnel.files.parsing import json_of

MAX_LINE_BYTES = 1_000_000
_FIELDS = ("id", "verb", "scenario", "set")


def answered(command: str, source: Any, overrides: tuple[str, ...] = ()) -> dict[str, Any]:
    """A command's result as `--json` prints it, without what is simulated for a reader alone."""
    result: dict[str, Any] = COMMANDS.get(command).run(source, overrides, full=False).to_dict()
    return result


def answers(lines: Iterable[str], folder: Path = Path()) -> Iterator[dict[str, Any]]:
    """One answer a line that is not blank.

    Args:
        lines: Questions.
        folder: Folder that paths of scenarios are relative to.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        begun = time.perf_counter()
        head: dict[str, Any] = {"id": number}
        try:
            asked = read_question(line, number)
            head["id"] = asked.get("id", number)
            head["verb"] = asked["verb"]
            source = asked["scenario"]
            source = str(folder / source) if isinstance(source, str) else source
            result = answered(asked["verb"], source, settings_of(asked.get("set")))
            yield {**head, "ok": True, "result": result, "wall_s": time.perf_counter() - begun}
        except Exception as error:
            problems, code = problems_of(error)
            yield {**head, "ok": False, "problems": problems, "exit_code": code, "wall_s": time.perf_counter() - begun}


def read_question(line: str, number: int) -> dict[str, Any]:
    """A line as a question.

    Raises:
        BadInput: everything wrong with the line, at once.
    """
    if len(line.encode("utf-8", "replace")) > MAX_LINE_BYTES:
        raise BadInput(Problem(f"line {number}", f"must be at most {MAX_LINE_BYTES:,} bytes"))
    try:
        asked = json_of(line)
    except ValueError as error:
        raise BadInput(Problem(f"line {number}", f"must be one JSON object: {error}")) from None
    if not isinstance(asked, dict):
        raise BadInput(Problem(f"line {number}", "must be one JSON object", asked))
    problems = ProblemList()
    for name in asked:
        if name not in _FIELDS:
            rule = f"unknown field; known are {', '.join(_FIELDS)}"
            problems.add(name, asked[name], rule, nearest=nearest_name(name, _FIELDS))
    verb = asked.get("verb")
    known = asked_by_name()
    if verb not in known:
        nearest = nearest_name(str(verb), known) if verb else None
        problems.add("verb", verb, f"must be one of {', '.join(known)}", nearest=nearest)
    if not isinstance(asked.get("scenario"), str | dict):
        problems.add(
            "scenario", asked.get("scenario"), "must be the path of a scenario file or a mapping of its fields"
        )
    if not isinstance(asked.get("set", {}), dict | list):
        problems.add("set", asked["set"], 'must be a mapping of fields to values, or a list of "field=value"')
    problems.raise_if_any()
    return asked


def settings_of(given: Any) -> tuple[str, ...]:
    """Settings as `--set` takes them, from a mapping or a list of `field=value`."""
    if not given:
        return ()
    if isinstance(given, dict):
        return tuple(f"{name}={json.dumps(value)}" for name, value in given.items())
    return tuple(str(one) for one in given)
