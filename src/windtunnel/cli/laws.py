"""`windtunnel laws`: what published scaling laws say of numbers that one gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from windtunnel.cli import complete
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, print_json
from windtunnel.cli.tables import fields_table, listing

if TYPE_CHECKING:
    from windtunnel.laws import Law, Prediction, Quantity

ASK = (
    ("laws",),
    ("laws", "chinchilla-refit", "parameters=7B", "tokens=300B"),
    ("laws", "chinchilla-refit", "flop=1e23"),
    ("laws", "beyond-chinchilla", "parameters=13B", "served=2T"),
    ("laws", "chinchilla", "parameters=70B", "tokens=1.4T", "--extrapolate"),
)
"""Command lines that the help shows."""


def laws(
    law: Annotated[
        str | None,
        typer.Argument(metavar="ID", autocompletion=complete.laws, help="A law; absent: all.", show_default=False),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUANTITY=VALUE",
            help="What is known, e.g. parameters=7B tokens=300B; asks the question that needs it.",
        ),
    ] = None,
    extrapolate: Annotated[
        bool, typer.Option("--extrapolate", help="Answer outside the stated range too, with a wider interval.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="List the laws.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask published scaling laws: loss, compute-optimal size, tokens.

    Without quantities a law shows its questions, coefficients, range and source. Intervals are 80 %.
    """
    from windtunnel.laws import LAWS

    if law is None or show:
        found = [one for _, one in LAWS.items() if law in (None, one.id)] or [LAWS.get(str(law), field="law")]
        if as_json:
            print_json([_record(one) for one in found])
        else:
            rows = [(one.id, one.title, ", ".join(q.id for q in one.questions), one.grade) for one in found]
            console().print(listing(("law", "what it says", "questions", "grade"), rows))
        return
    chosen = LAWS.get(law, field="law")
    if not given:
        if as_json:
            print_json(_record(chosen))
        else:
            _show(chosen)
        return
    answer = chosen.predict(_read(given), extrapolate=extrapolate)
    if as_json:
        print_json(answer.to_dict())
    else:
        _tell(chosen, answer)


def _read(given: list[str]) -> dict[str, str]:
    from windtunnel.errors import BadInput, Problem

    wrong = [one for one in given if "=" not in one]
    names = [one.partition("=")[0].strip() for one in given]
    problems = [Problem("", "must be QUANTITY=VALUE, such as parameters=7B", one) for one in wrong]
    problems += [Problem(name, "is given twice") for name in dict.fromkeys(names) if names.count(name) > 1]
    if problems:
        raise BadInput(problems)
    return {name: one.partition("=")[2].strip() for name, one in zip(names, given, strict=True)}


def _record(law: Law) -> dict[str, Any]:
    questions = [
        {"id": q.id, "summary": q.summary, "needs": list(q.needs), "may": list(q.may), "answers": dict(q.units)}
        for q in law.questions
    ]
    tables = {
        key or "all": {n: {"value": c.value, "error": c.error, "rounding": c.rounding} for n, c in table.items()}
        for key, table in law.tables.items()
    }
    return {
        "id": law.id,
        "title": law.title,
        "source": law.source,
        "link": law.link,
        "confirmed": law.confirmed,
        "valid": law.valid,
        "grade": law.grade,
        "quantities": {name: _quantity(one) for name, one in law.quantities.items()},
        "questions": questions,
        "coefficients": tables,
        "notes": list(law.notes),
    }


def _quantity(one: Quantity) -> dict[str, Any]:
    from math import isfinite

    ends = {"low": one.low, "high": one.high}
    stated: dict[str, Any] = {k: v if isfinite(v) else None for k, v in ends.items()}
    return {"doc": one.doc, "unit": one.unit, "default": one.default, "choices": list(one.choices), **stated}


def _show(law: Law) -> None:
    values: dict[str, Any] = {"source": law.source, "link": law.link, "valid for": law.valid, "grade": law.grade}
    values["read from"] = law.confirmed
    for question in law.questions:
        may = f" [{', '.join(question.may)}]" if question.may else ""
        values[f"asks {question.id}"] = f"{question.summary} Needs {', '.join(question.needs)}{may}."
    for name, one in law.quantities.items():
        default = "" if one.default is None else f"; {one.default:g} where absent"
        values[name] = f"{one.doc}{f' ({one.unit})' if one.unit else ''}{default}"
        if one.choices:
            values[name] += f": {', '.join(one.choices)}"
    for key, table in law.tables.items():
        if table:
            named = ", ".join(f"{n} {_number(c.value)}{f' ± {c.error:g}' if c.error else ''}" for n, c in table.items())
            values[f"coefficients {key}".strip()] = named
    for at, note in enumerate(law.notes):
        values["note" + " " * at] = note
    console().print(fields_table(f"{law.id}: {law.title}", values))


def _tell(law: Law, answer: Prediction) -> None:
    rows = []
    for name, one in answer.values.items():
        interval = "" if one.low == one.high else f"{_number(one.low)} to {_number(one.high)}"
        rows.append((name, _number(one.value), interval, one.unit))
    console().print(listing((answer.question, "value", "80 % interval", "unit"), rows))
    console().print(f"{answer.grade}; {law.source}", markup=False, soft_wrap=True, style="dim")
    for line in answer.outside:
        console().print(f"outside: {line}", markup=False, soft_wrap=True)
    for line in answer.notes:
        console().print(f"note: {line}", markup=False, soft_wrap=True, style="dim")


def _number(value: float) -> str:
    return f"{value:.4g}"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=examples(*(" ".join(words) for words in ASK)))(laws)
