"""A file of attempts, or of counted successes: CSV or JSON to counts by problem, wrong answers and lengths.

A row is an attempt (`problem`, `correct`, and where known `attempt`, `answer`, `tokens`, `temperature`, `model`,
`task`), or a problem with its `samples` and how many of them are `correct`. JSON may also hold lists by model
(`correct`, and `samples` or `samples_per_problem`). Rows are added up as they are read: memory grows with problems and
different answers, not with attempts.
"""

from __future__ import annotations

import csv
import io
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.files import reading
from windtunnel.files.parsing import json_of
from windtunnel.population.answers import lengths_of, wrong_histograms
from windtunnel.specs.population import AnswerLengths

COLUMNS: dict[str, tuple[str, ...]] = {
    "problem": ("problem", "problem_id", "problem_index", "task_id", "question", "question_id", "id", "index"),
    "correct": ("correct", "is_correct", "passed", "pass", "success", "solved", "right", "score", "reward"),
    "samples": ("samples", "attempts", "n", "num_samples", "samples_per_problem"),
    "attempt": ("attempt", "attempt_id", "sample_id", "sample_index", "sample_idx", "trial", "trial_id"),
    "answer": ("answer", "prediction", "predicted", "final_answer", "extracted_answer"),
    "tokens": ("tokens", "output_tokens", "completion_tokens", "length", "num_tokens"),
    "temperature": ("temperature", "temp"),
    "model": ("model", "model_name", "model_id"),
    "task": ("task", "benchmark", "dataset"),
}
"""What is read → names that its column goes by."""
_YES = {"1", "1.0", "true", "yes", "y", "right", "correct", "pass", "passed", "solved"}
_NO = {"0", "0.0", "false", "no", "n", "wrong", "incorrect", "fail", "failed", ""}
_MOST_ROWS, _MOST_PROBLEMS = 20_000_000, 20
_FAMILIES = ("temperature", "model", "task")


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Counts of one population."""

    correct: Floats
    """Right attempts of each problem."""
    samples: Floats
    """Attempts at each problem."""
    temperature: float | None
    model: str
    task: str
    wrong_answers: tuple[tuple[float, ...], ...]
    """Histograms of wrong answers, kinds of problem equally frequent; empty without answers."""
    lengths: AnswerLengths | None
    without_tokens: int = 0
    """Attempts that do not state their tokens, where others do."""

    @property
    def attempts(self) -> int:
        """Attempts in all."""
        return int(self.samples.sum())


_Family = tuple[float | None, str, str]
"""Temperature, model and task: the order of `_FAMILIES`."""


@dataclass(slots=True)
class _Counted:
    """Attempts of one family so far."""

    problems: dict[str, list[float]] = field(default_factory=dict)
    """Right attempts and attempts by problem, in order of appearance."""
    wrong: dict[str, Counter[str]] = field(default_factory=dict)
    """Wrong answers by problem."""
    tokens: tuple[array[float], array[float]] = field(default_factory=lambda: (array("d"), array("d")))
    """Of wrong and of right attempts."""
    without_tokens: int = 0
    seen: set[tuple[str, str]] = field(default_factory=set)
    """Problem and attempt, where attempts have a name."""


def read_samples(
    path: str | Path, *, model: str = "", task: str = "", temperature: float | None = None, field: str = "samples"
) -> Samples:
    """Read a file of attempts or of counts, of one model, task and temperature.

    Args:
        path: CSV (commas, semicolons, tabs or bars) or JSON.
        model: only its rows; needed where the file holds several.
        task: only its rows.
        temperature: only attempts drawn at it.
        field: what problems are reported of.

    Raises:
        BadInput: the file cannot be read, has damaged rows, or mixes models, tasks or temperatures, a line each.
    """
    text = reading.read_text(path, field)
    told = _Problems(str(path))
    records = _json_rows(text, told) if text.lstrip()[:1] in ("[", "{") else _csv_rows(text, told)
    families: dict[_Family, _Counted] = {}
    for line, record in records:
        _add(record, line, families, told)
    told.raise_any()
    if not families:
        raise BadInput(Problem("", "must hold one attempt at least", file=str(path)))
    return _samples(_of_one(families, (temperature, model, task), str(path), parent=field.rpartition(".")[0]))


class _Problems:
    """What is wrong with a file; the first twenty are reported."""

    def __init__(self, file: str) -> None:
        self.file, self.found, self.more = file, list[Problem](), 0

    def add(self, field: str, rule: str, line: int | None = None, **value: Any) -> None:
        if len(self.found) < _MOST_PROBLEMS:
            self.found.append(Problem(field, rule, file=self.file, line=line, **value))
        else:
            self.more += 1

    def raise_any(self) -> None:
        if self.more:
            self.found.append(Problem("", f"and {self.more} more damaged rows", file=self.file))
        if self.found:
            raise BadInput(self.found)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", str(name).strip().casefold()).strip("_")


def _columns(names: Iterable[str]) -> dict[str, str]:
    """What is read → the name that it has here, the likeliest spelling first."""
    plain = {_plain(name): name for name in names}
    reads: dict[str, str] = {}
    for what, spellings in COLUMNS.items():
        found = next((s for s in spellings if s in plain), None)
        if found is not None:
            reads[what] = plain[found]
    return reads


def _csv_rows(text: str, told: _Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    head = text.partition("\n")[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t|", key=head.count))
    try:
        names = [name.strip() for name in next(reader, [])]
        reads = _columns(names)
        for what in ("problem", "correct"):
            if what not in reads:
                near = next((n for n in names if nearest_name(n, COLUMNS[what])), None)
                told.add(what, "is required as a column", 1)
                if near is not None:
                    told.found[-1] = Problem(what, "is required as a column", nearest=near, file=told.file, line=1)
        for what, name in reads.items():
            if names.count(name) > 1:
                told.add(what, "must be one column", 1, value=f"{names.count(name)} columns {name}")
        told.raise_any()
        at = {what: names.index(name) for what, name in reads.items()}
        for row in reader:
            line = reader.line_num
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(names):
                told.add("", f"must have {len(names)} cells as the header has", line, value=f"{len(row)} cells")
                continue
            if line > _MOST_ROWS:
                told.add("", f"must hold {_MOST_ROWS:,} rows at most", line)
                return
            yield line, {what: row[place].strip() for what, place in at.items()}
    except csv.Error as error:
        told.add("", f"is no CSV: {error}", reader.line_num)


def _json_rows(text: str, told: _Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of JSON with their number from 1; lists by model become a row for each problem."""
    try:
        data = json_of(text)
    except ValueError as error:
        data = _json_lines(text, told)
        if not data:
            told.add("", f"is no JSON: {' '.join(str(error).split())[:100]}")
            return
    if isinstance(data, dict):
        data = next((data[k] for k in ("samples", "attempts", "rows") if isinstance(data.get(k), list)), [data])
        data = [data] if data and not isinstance(data[0], dict) else data
    for number, record in enumerate(data, 1):
        if not isinstance(record, dict):
            told.add("", "must be a mapping", number, value=str(record)[:40])
            continue
        reads = _columns(record)
        missing = [what for what in ("problem", "correct") if what not in reads]
        if isinstance(record.get("correct"), list):
            yield from _listed(record, reads, number, told)
        elif missing:
            told.add(missing[0], "is required", number)
        else:
            yield number, {what: record[name] for what, name in reads.items()}


def _json_lines(text: str, told: _Problems) -> list[Any]:
    """Mappings, one a line; empty where not even the first line is one. Damaged lines are reported."""
    data: list[Any] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            data.append(json_of(line))
        except ValueError as error:
            if not data:
                return []
            told.add("", f"is no JSON: {' '.join(str(error).split())[:100]}", number)
    return data


def _listed(
    record: dict[str, Any], reads: dict[str, str], number: int, told: _Problems
) -> Iterator[tuple[int, dict[str, Any]]]:
    """A row of lists: counts of all problems of a model."""
    correct = record["correct"]
    samples = record.get(reads.get("samples", ""))
    samples = samples if isinstance(samples, list) else [samples] * len(correct)
    names = record.get(reads.get("problem", ""))
    names = names if isinstance(names, list) else list(range(len(correct)))
    if not len(correct) == len(samples) == len(names):
        told.add("samples", f"must have {len(correct)} entries as `correct` has", number, value=len(samples))
        return
    if samples and samples[0] is None:
        told.add("samples", "is required with a list of counts (or samples_per_problem)", number)
        return
    shared = {what: record[name] for what, name in reads.items() if what in _FAMILIES}
    for name, c, n in zip(names, correct, samples, strict=True):
        yield number, {"problem": name, "correct": c, "samples": n, **shared}


def _add(record: dict[str, Any], line: int, families: dict[_Family, _Counted], told: _Problems) -> None:
    """Add one row to its family; what is wrong with it is one line."""
    name = record.get("problem")
    if name is None or str(name) == "":
        told.add("problem", "must not be empty", line)
        return
    samples = 1.0
    if record.get("samples") not in (None, ""):
        found = _number(record["samples"])
        if found is None or found < 1 or found != int(found) or found > 1e9:
            told.add("samples", "must be a whole number of at least 1", line, value=record["samples"])
            return
        samples = found
    correct = _right(record.get("correct"), samples)
    if correct is None:
        rule = "must be 0 or 1 (or true, false)" if samples == 1 else f"must be a whole number from 0 to {samples:g}"
        told.add("correct", rule, line, value=record.get("correct"))
        return
    rest: dict[str, float | None] = {}
    for what, least in (("tokens", 1.0), ("temperature", 0.0)):
        value = record.get(what)
        number = None if value is None or value == "" else _number(value)
        if value not in (None, "") and (number is None or not least <= number <= 1e9):
            told.add(what, f"must be a number of at least {least:g}", line, value=value)
            return
        rest[what] = number
    family = (rest["temperature"], str(record.get("model") or ""), str(record.get("task") or ""))
    counted = families.get(family)
    if counted is None:
        counted = families[family] = _Counted()
    problem, attempt = str(name), record.get("attempt")
    if attempt not in (None, ""):
        if (problem, str(attempt)) in counted.seen:
            told.add(
                "attempt", f"must be one row for each attempt: problem {problem[:40]} has it twice", line, value=attempt
            )
            return
        counted.seen.add((problem, str(attempt)))
    sums = counted.problems.setdefault(problem, [0.0, 0.0])
    sums[0] += correct
    sums[1] += samples
    answer = record.get("answer")
    if not correct and answer is not None and answer != "":
        counted.wrong.setdefault(problem, Counter())[" ".join(str(answer).split())] += 1
    if samples == 1:
        if rest["tokens"] is None:
            counted.without_tokens += 1
        else:
            counted.tokens[correct > 0].append(rest["tokens"])


def _right(value: Any, samples: float) -> float | None:
    """Right attempts of a row."""
    if samples == 1:
        word = str(value).strip().casefold() if value is not None else "?"
        return 1.0 if word in _YES else 0.0 if word in _NO else None
    found = _number(value)
    return found if found is not None and 0 <= found <= samples and found == int(found) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _of_one(
    families: dict[_Family, _Counted], asked: tuple[float | None, str, str], file: str, parent: str
) -> tuple[_Family, _Counted]:
    """The family of the temperature, model and task asked for; several where none is asked for are listed, a line each.

    Raises:
        BadInput: a mixture, or nothing of what is asked for.
    """
    problems: list[Problem] = []
    left = dict(families)
    for at, what in enumerate(_FAMILIES):
        values: dict[Any, int] = {}
        for family, counted in left.items():
            values[family[at]] = values.get(family[at], 0) + int(sum(n for _, n in counted.problems.values()))
        want = asked[at]
        if want not in ("", None) and set(values) != {None if what == "temperature" else ""}:
            kept = {family: counted for family, counted in left.items() if family[at] == want}
            if not kept:
                names = sorted(str(v) for v in values)
                problems.append(Problem(what, f"is not in the file: it has {', '.join(names[:8])}", want, file=file))
            left = kept or left
        elif want in ("", None) and len(values) > 1:
            where = f"{parent}.{what}" if parent else f"--{what}"
            for value, count in sorted(values.items(), key=lambda item: str(item[0])):
                rule = f"{count:,} attempts; one population has one {what}: choose with {where}"
                problems.append(Problem(what, rule, "not stated" if value in ("", None) else value, file=file))
    if problems:
        raise BadInput(problems)
    ((family, counted),) = left.items()
    return family, counted


def _samples(found: tuple[_Family, _Counted]) -> Samples:
    (temperature, model, task), counted = found
    sums = np.array(list(counted.problems.values()), np.float64)
    wrong, right = (np.array(x, np.float64) for x in counted.tokens)
    stated = len(wrong) + len(right)
    return Samples(
        correct=sums[:, 0],
        samples=sums[:, 1],
        temperature=temperature,
        model=model,
        task=task,
        wrong_answers=wrong_histograms(counted.wrong),
        lengths=lengths_of(right, wrong),
        without_tokens=counted.without_tokens if stated else 0,
    )
