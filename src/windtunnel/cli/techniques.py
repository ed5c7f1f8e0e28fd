"""`windtunnel techniques`: the published systems that Windtunnel can run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from windtunnel.cli import complete
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, print_json

if TYPE_CHECKING:
    from windtunnel.techniques import Technique

app = typer.Typer(help="Published techniques: list, show, search, cite.", rich_markup_mode=None)


@app.callback(
    invoke_without_command=True, epilog=examples("techniques list --family schedule", "techniques show zero-bubble")
)
def _group(context: typer.Context, as_json: AsJson = False) -> None:
    """Published techniques: list, show, search, cite."""
    if context.invoked_subcommand is None:
        _print(_records(), as_json)


@app.command("list", epilog=examples("techniques list", "techniques list --family schedule --status works"))
def list_(
    family: Annotated[str | None, typer.Option(help="Only this family.")] = None,
    status: Annotated[str | None, typer.Option(help="Only works, partial or planned.")] = None,
    as_json: AsJson = False,
) -> None:
    """List techniques with family, status and paper."""
    chosen = [r for r in _records() if family in (None, r["family"]) and status in (None, r["status"])]
    _print(chosen, as_json)


@app.command(epilog=examples("techniques search bubble"))
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="All must occur.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Find techniques by words in the id, title or family."""
    wanted = [word.lower() for word in words]
    _print([r for r in _records() if all(word in str(r).lower() for word in wanted)], as_json)


@app.command(epilog=examples("techniques show zb_h1"))
def show(
    technique: Annotated[
        str, typer.Argument(metavar="ID", autocompletion=complete.techniques, help="Technique id.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Show one technique: levels, knobs, paper."""
    record = _one(technique)
    if as_json:
        print_json(record)
        return
    from windtunnel.cli.tables import fields_table

    values = {k: v for k, v in record.items() if k not in ("id", "citation", "knobs") and v not in ("", [])}
    for name, knob in record["knobs"].items():
        bounds = "" if knob["low"] is None else f", {knob['low']} to {knob['high']}"
        values[f"knob {name}"] = f"{knob['default']}{bounds}: {knob['doc']}"
    console().print(fields_table(record["id"], values))


@app.command(epilog=examples("techniques cite zb_h1 tp_overlap"))
def cite(
    techniques: Annotated[
        list[str],
        typer.Argument(metavar="ID", autocompletion=complete.techniques, help="Technique ids.", show_default=False),
    ],
    as_json: AsJson = False,
) -> None:
    """Print the references of techniques."""
    papers = [{"id": one, "citation": _one(one)["citation"]} for one in techniques]
    if as_json:
        print_json(papers)
    else:
        for paper in papers:
            typer.echo(paper["citation"])


def _records() -> list[dict[str, Any]]:
    from windtunnel.techniques import REGISTRY

    return [_record(technique) for _, technique in REGISTRY.items()]


def _record(technique: Technique) -> dict[str, Any]:
    """A technique as plain data."""
    paper = technique.paper
    return {
        "id": technique.id,
        "family": technique.family,
        "status": technique.status,
        "paper": f"{paper.title} ({paper.year})",
        "summary": technique.summary,
        "link": paper.link,
        "levels": list(technique.levels),
        "acts_on": list(technique.scopes),
        "knobs": {
            name: {"default": knob.default, "low": knob.low, "high": knob.high, "doc": knob.doc}
            for name, knob in technique.knobs.items()
        },
        "saves": technique.saves,
        "missing": technique.missing,
        "after": list(technique.after),
        "citation": paper.bibtex(technique.id),
    }


def _one(technique: str) -> dict[str, Any]:
    from windtunnel.errors import BadInput, Problem, nearest_name

    records = {record["id"]: record for record in _records()}
    if technique not in records:
        problem = Problem("technique", "is not known", technique, nearest_name(technique, records))
        raise BadInput(problem)
    return records[technique]


def _print(records: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json([{key: record[key] for key in ("id", "family", "status", "acts_on", "paper")} for record in records])
        return
    from windtunnel.cli.tables import listing

    rows = [(r["id"], r["family"], r["status"], ", ".join(r["acts_on"]), r["paper"]) for r in records]
    console().print(listing(("id", "family", "status", "acts on", "paper"), rows))
