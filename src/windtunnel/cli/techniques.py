"""`windtunnel techniques`: the published systems that Windtunnel can run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from windtunnel.cli import complete
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, note, print_json
from windtunnel.files.writing import write_text

app = typer.Typer(help="Published techniques: list, show, search, cite.", rich_markup_mode=None)

Ids = Annotated[
    list[str],
    typer.Argument(metavar="ID", autocompletion=complete.techniques, help="Technique ids.", show_default=False),
]
Planned = Annotated[
    bool, typer.Option("--planned", help="Systems of the research catalogue that are not built yet instead.")
]
_FIELDS = ("id", "family", "status", "acts_on", "paper")


@app.callback(
    invoke_without_command=True, epilog=examples("techniques list --family train-parallel", "techniques show zb-h1")
)
def _group(context: typer.Context, as_json: AsJson = False) -> None:
    """Published techniques: list, show, search, cite."""
    if context.invoked_subcommand is None:
        _print(_records(), as_json)


@app.command(
    "list",
    epilog=examples(
        "techniques list", "techniques list --acts-on serving --status works", "techniques list --relieves scale-out"
    ),
)
def list_(
    family: Annotated[str | None, typer.Option(help="Only this family of the catalogue.")] = None,
    status: Annotated[str | None, typer.Option(help="Only works, partial or planned.")] = None,
    acts_on: Annotated[
        str | None, typer.Option(help="Only those that act on training, serving, run, cluster or learning.")
    ] = None,
    level: Annotated[str | None, typer.Option(help="Only with a part at this level: plan, graph, segment …")] = None,
    relieves: Annotated[str | None, typer.Option(help="Only those that relieve this: memory, bubble …")] = None,
    planned: Planned = False,
    as_json: AsJson = False,
) -> None:
    """List techniques with family, status, what they act on, and paper."""
    wanted = {"family": family, "status": status, "acts_on": acts_on, "levels": level, "relieves": relieves}
    records = _planned() if planned else _records()
    _check(wanted, records)
    _print([r for r in records if all(v is None or v in _values(r, k) for k, v in wanted.items())], as_json)


@app.command(epilog=examples("techniques search bubble", "techniques search all-reduce narayanan"))
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="All must occur.", show_default=False)],
    planned: Planned = False,
    as_json: AsJson = False,
) -> None:
    """Find techniques by words: mechanism, paper, authors, options."""
    from windtunnel.techniques.described import matches

    wanted = [part for word in words for part in word.split()]
    _print([r for r in (_planned() if planned else _records()) if matches(r, wanted)], as_json)


@app.command(epilog=examples("techniques show zb-h1"))
def show(
    technique: Annotated[
        str, typer.Argument(metavar="ID", autocompletion=complete.techniques, help="Technique id.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Show one technique: what it does, its knobs, options, paper."""
    from windtunnel.techniques.described import allowed, default, record

    if (other := _elsewhere(technique)) is not None:
        _show_elsewhere(other, as_json)
        return
    one = _one(technique)
    found = record(one, conflicts=True)
    if as_json:
        print_json(found)
        return
    from windtunnel.cli.tables import fields_table

    out = console()
    values: dict[str, Any] = {
        "family": one.family,
        "status": one.status + (f": {one.missing}" if one.missing else ""),
        "acts on": ", ".join(one.scopes),
        "levels": ", ".join(one.levels),
        one.kind: one.use,
        "saves": one.saves if one.saves == one.relieves else f"{one.saves} ({one.relieves})",
        "quality": one.quality or "results stay what they were",
        "paper": one.paper.line(),
        "authors": one.paper.authors,
    }
    values |= {f"in {name}": option for name, option in one.where.items()}
    for name, knob in one.knobs.items():
        rule = allowed(knob)
        values[f"knob {name}"] = f"{default(knob)}{f' ({rule})' if rule else ''}: {knob.doc}"
    values |= {"runs after": ", ".join(one.after), "needs": ", ".join(one.requires)}
    by_reason: dict[str, list[str]] = {}
    for id, why in found["conflicts"].items():
        by_reason.setdefault(why, []).append(id)
    for i, (why, ids) in enumerate(by_reason.items()):
        values["conflicts" + " " * i] = f"{', '.join(ids)}: {why}"
    if one.experiment:
        values["its claims"] = f"windtunnel reproduce {one.experiment}"
    out.print(fields_table(f"{one.id}: {one.summary}", {k: v for k, v in values.items() if v not in ("", None)}))
    out.print()
    out.print(found["mechanism"], markup=False, soft_wrap=True)


@app.command(epilog=examples("techniques cite zb-h1 tp-overlap", "techniques cite zb-h1 --output papers.bib"))
def cite(
    techniques: Ids,
    text: Annotated[bool, typer.Option("--text", help="One line a paper in place of BibTeX.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there instead of printing.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the references of techniques, as BibTeX or as text.

    `train --cite FILE` writes those of one run.
    """
    from windtunnel.techniques.described import bibtex

    chosen = [_one(id) for id in techniques]
    if as_json:
        print_json([{"id": one.id, "citation": one.paper.bibtex(one.id), "text": one.paper.line()} for one in chosen])
        return
    lines = "\n".join(dict.fromkeys(one.paper.line() for one in chosen)) + "\n"
    written = lines if text else bibtex(one.id for one in chosen)
    if output is None:
        typer.echo(written, nl=False)
    else:
        write_text(output, written)
        note(f"references  {output}")


def _records() -> list[dict[str, Any]]:
    from windtunnel.techniques import REGISTRY
    from windtunnel.techniques.described import record

    return [record(technique) for _, technique in REGISTRY.items()]


def _planned() -> list[dict[str, Any]]:
    from windtunnel.techniques.systems import planned

    return [one.record() for one in planned()]


def _elsewhere(id: str) -> dict[str, Any] | None:
    """A system of the catalogue that is no technique: as a law, as claims alone, or not built; None otherwise."""
    from windtunnel.laws import LAWS
    from windtunnel.systems import card
    from windtunnel.techniques import REGISTRY
    from windtunnel.techniques.systems import system

    one = system(id)
    if one is None or one.id in REGISTRY:
        return None
    law = one.id if one.id in LAWS else ""
    experiment = next(iter(card(one.id).claims), "")
    status = "law" if law else "claims" if experiment else "planned"
    return one.record() | {"status": status, "law": law, "experiment": experiment}


def _show_elsewhere(found: dict[str, Any], as_json: bool) -> None:
    """Print what is known of it, and which commands run it."""
    from windtunnel.cli.tables import fields_table

    if as_json:
        print_json(found)
        return
    words = {"law": "a scaling law, no technique", "claims": "claims, no technique", "planned": "not built yet"}
    values = {
        "family": found["family"],
        "status": words[found["status"]],
        "paper": found["paper"],
        "asked by": f"windtunnel laws {found['law']}" if found["law"] else "",
        "its claims": f"windtunnel reproduce {found['experiment']}" if found["experiment"] else "",
    }
    console().print(fields_table(f"{found['id']}: {found['summary']}", {k: v for k, v in values.items() if v}))


def _values(record: dict[str, Any], field: str) -> list[str]:
    value = record[field]
    return list(value) if isinstance(value, list) else [value]


def _check(wanted: dict[str, str | None], records: list[dict[str, Any]]) -> None:
    """Values of filters that no technique has.

    Raises:
        BadInput: all of them, with those that there are.
    """
    from windtunnel.errors import BadInput, Problem, nearest_name
    from windtunnel.techniques.base import LEVELS, WORK

    always = {"status": ("works", "partial", "planned"), "acts_on": WORK, "levels": LEVELS}
    options = {"acts_on": "--acts-on", "levels": "--level"}
    problems = []
    for field, value in wanted.items():
        known = sorted({x for r in records for x in _values(r, field) if x} | set(always.get(field, ())))
        if value is not None and value not in known:
            name = options.get(field, f"--{field}")
            problems.append(Problem(name, f"must be one of {', '.join(known)}", value, nearest_name(value, known)))
    if problems:
        raise BadInput(problems)


def _one(technique: str) -> Any:
    from windtunnel.techniques import REGISTRY

    return REGISTRY.get(technique if technique in REGISTRY else technique.replace("_", "-"), field="technique")


def _print(records: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json([{key: record[key] for key in (*_FIELDS, "levels", "relieves", "summary")} for record in records])
        return
    from windtunnel.cli.tables import listing

    if records and records[0]["status"] == "planned":
        told = [(r["id"], r["family"], r["tier"], r["name"], r["summary"]) for r in records]
        console().print(
            listing(("id", "family", "tier", "name", "what it does"), told, drop=("tier", "family", "name"))
        )
        return
    rows = [(r["id"], r["family"], r["status"], ", ".join(r["acts_on"]), r["paper"]) for r in records]
    console().print(listing(("id", "family", "status", "acts on", "paper"), rows, drop=("family", "acts on", "status")))
