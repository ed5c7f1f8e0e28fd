"""`windtunnel stacks`: what software does by itself, by release, and public recipes by name."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from windtunnel.cli import complete
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, print_json
from windtunnel.cli.tables import fields_table, listing


def stacks(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=complete.stacks,
            help="A framework, a serving engine or a recipe.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List frameworks and serving engines, or show one's defaults.

    A name shows releases, defaults, rules and recipes.

    A recipe shows what it sets.
    """
    from windtunnel.stacks.describe import engine_ids, engine_record, stack_or_recipe, stack_record
    from windtunnel.stacks.stack_files import FRAMEWORKS

    if name is not None:
        record = stack_or_recipe(name)
        if as_json:
            print_json(record)
        elif record["kind"] == "recipe":
            _show_recipe(record)
        elif record["kind"] == "engine":
            _show_engine(record)
        else:
            _show_framework(record)
        return
    records = [stack_record(framework) for framework in FRAMEWORKS]
    if as_json:
        print_json([*records, *(engine_record(engine) for engine in engine_ids())])
        return
    rows = [
        (r["id"], r["name"], _newest(r), f"{len(r['defaults'])}", f"{len(r['recipes'])}", r["inherits"] or "")
        for r in records
    ]
    console().print(
        listing(
            ("framework", "name", "newest release", "defaults", "recipes", "inherits"), rows, drop=("name", "inherits")
        )
    )
    engines = [(r["id"], r["name"], f"{len(r['rules'])}") for r in map(engine_record, engine_ids())]
    console().print(listing(("serving engine", "name", "rules"), engines))


def _newest(record: dict[str, Any]) -> str:
    return next((f"{one['release']} ({one['date']})" for one in reversed(record["releases"])), "")


def _show_framework(record: dict[str, Any]) -> None:
    shown = {
        "repository": record["repository"],
        "inherits": record["inherits"],
        "also written": ", ".join(record["spellings"]),
        "releases": ", ".join(f"{one['release']} ({one['date']})" for one in record["releases"]),
    }
    values = {name: value for name, value in shown.items() if value}
    console().print(fields_table(f"{record['id']}: {record['name']}", values))
    rows = [
        (one["field"], _said(one["value"]), one["since"] or "", _when(one["when"]), one["source"])
        for one in record["defaults"]
    ]
    console().print(listing(("default", "value", "since", "where", "source"), rows))
    if record["formats"]:
        formats = [(one["precision"], one.get("since", ""), one["source"]) for one in record["formats"]]
        console().print(listing(("trains in", "since", "source"), formats))
    if record["rules"]:
        rules = [(one["field"], _said(one["allowed"]), one.get("since", ""), one["source"]) for one in record["rules"]]
        console().print(listing(("rule", "allowed", "since", "source"), rules))
    if record["recipes"]:
        recipes = [
            (one["name"], one["since"], f"{one['devices'] or 'any'} × {one['device'] or 'any'}", one["source"])
            for one in record["recipes"]
        ]
        console().print(listing(("recipe", "since", "made for", "source"), recipes))


def _show_engine(record: dict[str, Any]) -> None:
    console().print(fields_table(f"{record['id']}: {record['name']}", {"repository": record["repository"]}))
    rows = [
        (one["field"], *_relation(one), " to ".join(filter(None, (one.get("since"), one.get("until")))), one["source"])
        for one in record["rules"]
    ]
    console().print(listing(("rule", "allowed", "where", "releases", "source"), rows))


def _relation(rule: dict[str, Any]) -> tuple[str, str]:
    """What a rule of an engine allows, and where it holds."""
    from windtunnel.stacks.serving_rules import RELATIONS

    name = next(name for name in RELATIONS if name in rule)
    return f"{RELATIONS[name][1]} {_said(rule[name])}", _when(
        {fact: [_said(value) for value in values] for fact, values in rule.get("when", {}).items()}
    )


def _show_recipe(record: dict[str, Any]) -> None:
    values: dict[str, Any] = {"framework": record["framework"], "since": record["since"], "source": record["source"]}
    values["made for"] = f"{record['devices'] or 'any'} × {record['device'] or 'any'}"
    for section in ("training", "plan", "environment"):
        values |= {f"{section}.{name}": _said(value) for name, value in record[section].items()}
    console().print(fields_table(record["name"], values))


def _when(conditions: dict[str, list[str]]) -> str:
    return "; ".join(f"{name} {', '.join(words)}" for name, words in conditions.items()) or "everywhere"


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=examples("stacks", "stacks megatron-bridge", "stacks nemo --json"))(stacks)
