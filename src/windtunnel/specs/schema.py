"""JSON Schema of scenario files, for editors: `python -m windtunnel.specs.schema` prints it.

The schema accepts what `scenarios.load` accepts: quantities as numbers or strings with units, and the short forms of
`recompute` and `overlap`.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel

from windtunnel.specs.base import Spec
from windtunnel.specs.plan import RECOMPUTE_MODULES
from windtunnel.specs.scenario import Scenario

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def scenario_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a scenario file, with the descriptions that the records carry in their source."""
    schema = Scenario.model_json_schema()
    definitions = schema["$defs"]
    for record in _records(Spec):
        target = schema if record is Scenario else definitions.get(record.__name__, {})
        for name, text in field_docs(record).items():
            if name in target.get("properties", {}):
                target["properties"][name].setdefault("description", text)
    plan = definitions["PlanSpec"]["properties"]
    module = {"enum": sorted({"none", "selective", "full", *RECOMPUTE_MODULES}), "type": "string"}
    listed = {"type": "array", "items": {"enum": list(RECOMPUTE_MODULES), "type": "string"}}
    plan["recompute"] = _also(plan["recompute"], module, listed, {"type": "null"})
    plan["overlap"] = _also(plan["overlap"], {"type": "boolean"}, {"type": "null"})
    _tidy(schema)
    return {"$schema": DIALECT, "title": "Windtunnel scenario"} | {k: v for k, v in schema.items() if k != "title"}


def with_names(
    schema: dict[str, Any],
    *,
    models: Sequence[str],
    devices: Sequence[str],
    clusters: Sequence[str],
    techniques: Sequence[str],
) -> dict[str, Any]:
    """The schema with names that an editor can offer. Other names stay valid: a user's own files and plug-ins."""

    def offer(field: dict[str, Any], known: Sequence[str]) -> None:
        for form in field.get("anyOf", [field]):
            if form.get("type") == "string":
                form.pop("type")
                form["anyOf"] = [{"enum": list(known)}, {"type": "string"}]

    offer(schema["properties"]["model"], models)
    offer(schema["properties"]["cluster"], clusters)
    offer(schema["properties"]["techniques"]["items"], techniques)
    offer(schema["$defs"]["ClusterRef"]["properties"]["device"], devices)
    return schema


def _tidy(value: Any) -> None:
    """Quantities above zero: pydantic leaves the bound next to the alternatives; it belongs to the number."""
    if isinstance(value, dict):
        if "gt" in value and "anyOf" in value:
            bound = value.pop("gt")
            for form in value["anyOf"]:
                if form.get("type") == "number":
                    form["exclusiveMinimum"] = bound
        for item in value.values():
            _tidy(item)
    elif isinstance(value, list):
        for item in value:
            _tidy(item)


def _also(field: dict[str, Any], *forms: dict[str, Any]) -> dict[str, Any]:
    """A field that takes more forms than its record. The default moves next to the alternatives."""
    about = {key: field[key] for key in ("default", "description") if key in field}
    return {"anyOf": [{key: field[key] for key in field if key not in about}, *forms]} | about


def field_docs(record: type[BaseModel]) -> dict[str, str]:
    """Field name → the string that follows it in the class body, or in that of a record which it extends."""
    found: dict[str, str] = {}
    for base in reversed(record.__mro__):
        if issubclass(base, Spec) and base is not Spec:
            found |= _own_docs(base)
    return found


def _records(base: type[Spec]) -> Iterator[type[Spec]]:
    """A record and all that extend it."""
    yield base
    for record in base.__subclasses__():
        yield from _records(record)


def _own_docs(record: type[BaseModel]) -> dict[str, str]:
    """Field name → the string that follows it in the body of this class."""
    return _docs_of(record.__module__).get(record.__name__, {})


@cache
def _docs_of(module: str) -> dict[str, dict[str, str]]:
    """Class of a module → field name → the string that follows it."""
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    return {node.name: _docs_in(node) for node in body if isinstance(node, ast.ClassDef)}


def _docs_in(body: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, after in zip(body.body, body.body[1:], strict=False):
        named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            assert isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            found[field.target.id] = inspect.cleandoc(str(after.value.value)).replace("\n", " ")
    return found


if __name__ == "__main__":
    json.dump(scenario_schema(), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
