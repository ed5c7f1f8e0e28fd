"""What the files of frameworks and recipes say, as records for readers and other programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.stacks.defaults import plain
from windtunnel.stacks.formats import narrow_formats
from windtunnel.stacks.names import framework_named
from windtunnel.stacks.recipes import Recipe, recipe_asked, recipe_names, recipes
from windtunnel.stacks.releases import releases
from windtunnel.stacks.serving_rules import ENGINES, serving_file
from windtunnel.stacks.stack_files import FRAMEWORKS, lineage, stack_file


def stack_or_recipe(name: str) -> dict[str, Any]:
    """The record of a training framework, by any usual name, of a serving engine, or of a recipe.

    Raises:
        BadInput: nothing has this name.
    """
    if (framework := framework_named(name)) is not None:
        return stack_record(framework)
    if (engine := plain(name)) in engine_ids():
        return engine_record(engine)
    if (recipe := recipe_asked(name)) is not None:
        return {"kind": "recipe", **asdict(recipe)}
    known = (*FRAMEWORKS, *engine_ids(), *recipe_names())
    rule = "must be a training framework, a serving engine or a recipe"
    raise BadInput(Problem("stack", rule, name, nearest_name(name, known)))


def engine_ids() -> tuple[str, ...]:
    """Serving engines that have rules."""
    return tuple(engine for engine in ENGINES if serving_file(engine))


def engine_record(engine: str) -> dict[str, Any]:
    """Rules of a serving engine, each with its source."""
    own = serving_file(engine)
    return {
        "kind": "engine",
        "id": engine,
        "name": own["name"],
        "repository": own["repository"],
        "inherits": None,
        "spellings": [],
        "releases": [],
        "defaults": [],
        "formats": [],
        "rules": [{"owner": engine, **_plain(row)} for row in own["rules"]],
        "recipes": [],
    }


def stack_record(framework: str) -> dict[str, Any]:
    """Releases, dates, defaults, formats, rules and recipes of a framework, each with its source."""
    own = stack_file(framework)
    return {
        "kind": "framework",
        "id": framework,
        "name": own.get("name", framework),
        "repository": own.get("repository"),
        "inherits": next(iter(lineage(framework)[1:]), None),
        "spellings": [str(word) for word in own.get("spellings", ())],
        "releases": [{"release": number, "date": date} for number, date in releases(framework).items()],
        "defaults": [
            {"field": field, "owner": owner, **_row(row)}
            for owner in reversed(lineage(framework))
            for field, rows in stack_file(owner).get("defaults", {}).items()
            for row in rows
        ],
        "formats": [{"precision": name, **_plain(row)} for name, row in (narrow_formats(framework) or {}).items()],
        "rules": [
            {"owner": owner, **_plain(row)}
            for owner in reversed(lineage(framework))
            for row in stack_file(owner).get("rules", ())
        ],
        "recipes": [_summary(recipe) for recipe in recipes(framework)],
    }


def _row(row: dict[str, Any]) -> dict[str, Any]:
    since = row.get("since")
    return {
        "value": row["value"],
        "since": None if since is None else str(since),
        "when": row.get("when", {}),
        "source": row["source"],
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its date as text."""
    return {name: str(value) if name == "since" else value for name, value in row.items()}


def _summary(recipe: Recipe) -> dict[str, Any]:
    return {
        "name": recipe.name,
        "since": str(recipe.since),
        "device": recipe.device or None,
        "devices": recipe.devices or None,
        "source": recipe.source,
    }
