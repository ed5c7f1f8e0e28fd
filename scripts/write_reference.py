"""Write docs/generated/reference/: every verb with its options, every field of a scenario, every public function.

python scripts/write_reference.py [FOLDER]
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import yaml

import windtunnel
from windtunnel import api
from windtunnel.cli.main import VERBS, app
from windtunnel.specs.schema import scenario_schema

FOLDER = Path(__file__).parents[1] / "docs" / "generated" / "reference"
_DEEPEST = 3


def verbs() -> str:
    """Every verb: what it does, its arguments, options and examples."""
    root = typer.main.get_command(app)
    commands: dict[str, Any] = dict(root.commands)  # type: ignore[attr-defined]
    lines = ["# Verbs", "", "Written by `scripts/write_reference.py` from the command line itself.", ""]
    for heading, names in VERBS.items():
        lines += [f"## {heading}", ""]
        for name in names:
            if name in commands:
                lines += list(_verb(f"windtunnel {name}", commands[name]))
    return "\n".join(lines).rstrip() + "\n"


def _verb(name: str, command: Any) -> Iterator[str]:
    inner = getattr(command, "commands", {})
    yield from (f"### `{name}`", "", _line(command.help or ""), "")
    rows = [one for one in command.params if getattr(one, "help", "") and "--help" not in one.opts]
    if rows:
        yield from ("| argument or option | |", "|---|---|")
        for one in rows:
            words = ", ".join([*one.opts, *one.secondary_opts])
            if one.param_type_name == "argument":
                words = one.metavar or one.name
            yield f"| `{words}` | {_cell(one.help)} |"
        yield ""
    lines = [line.strip() for line in (command.epilog or "").splitlines() if line.strip().startswith("windtunnel")]
    if lines:
        yield from ("```sh", *lines, "```", "")
    for below in inner:
        yield from _verb(f"{name} {below}", inner[below])


def fields() -> str:
    """The sections of a scenario, each with the page of its fields."""
    lines = [
        "# Fields of a scenario",
        "",
        "Written by `scripts/write_reference.py` from the JSON Schema (`windtunnel schema`). A section has a page of",
        "its own; a field that has fields is followed three levels deep there, deeper ones are in the schema.",
        "",
        "| section | holds |",
        "|---|---|",
    ]
    for section, own in scenario_schema()["properties"].items():
        name = f"[`{section}`](fields-{section}.md)" if section in sections() else f"`{section}`"
        lines.append(f"| {name} | {_cell(own.get('description', ''))} |")
    return "\n".join(lines) + "\n"


def sections() -> list[str]:
    """Sections that have fields of their own."""
    schema = scenario_schema()
    return [name for name, own in schema["properties"].items() if list(_rows(schema, own, name, 0, ()))]


def section_fields(section: str) -> str:
    """Every field of a section: type, default, meaning; with an example file that has the section."""
    schema = scenario_schema()
    own = schema["properties"][section]
    lines = [f"# Fields of `{section}`", ""]
    if text := _line(own.get("description", "")):
        lines += [text, ""]
    if example := _example(section):
        lines += ["For example:", "", "```yaml", example, "```", ""]
    rows = list(_rows(schema, own, section, 0, ()))
    if rows:
        lines += ["| field | type | default | meaning |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines).rstrip() + "\n"


def _example(section: str) -> str:
    """The section as the shortest example of the repository has it; empty where none does."""
    found = []
    for path in sorted((Path(__file__).parents[1] / "examples").rglob("*.yaml")):
        data = yaml.safe_load(path.read_text("utf-8"))
        if isinstance(data, dict) and section in data:
            text = yaml.safe_dump({section: data[section]}, sort_keys=False, width=100, allow_unicode=True)
            found.append(text.strip())
    return min((text for text in found if text.count("\n")), key=len, default=min(found, key=len, default=""))


def _rows(schema: dict[str, Any], node: dict[str, Any], path: str, depth: int, above: tuple[str, ...]) -> Iterator[str]:
    for name, record in _records(schema, node):
        if name in above or depth >= _DEEPEST:
            continue
        for field, own in record.get("properties", {}).items():
            where = f"{path}.{field}"
            default = "" if "default" not in own or own["default"] in (None, [], {}) else f"`{own['default']}`"
            yield f"| `{where}` | {_type(own)} | {_cell(default)} | {_cell(own.get('description', ''))} |"
            yield from _rows(schema, own, where, depth + 1, (*above, name))


def _records(schema: dict[str, Any], node: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Records that a field may hold."""
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[-1]
        yield name, schema["$defs"][name]
    for one in node.get("anyOf", ()):
        yield from _records(schema, one)
    if isinstance(node.get("items"), dict):
        yield from _records(schema, node["items"])


def _type(node: dict[str, Any]) -> str:
    if "$ref" in node:
        return "record"
    if "enum" in node or "const" in node:
        values = node.get("enum", [node.get("const")])
        told = ", ".join(f"`{value}`" for value in values[:8])
        return told + (" …" if len(values) > 8 else "")
    if "anyOf" in node:
        kinds = dict.fromkeys(_type(one) for one in node["anyOf"] if one.get("type") != "null")
        return " or ".join(kinds)
    if node.get("type") == "array":
        return f"list of {_type(node['items'])}" if isinstance(node.get("items"), dict) else "list"
    return str(node.get("type", "any"))


def functions() -> str:
    """Every public function with its docstring."""
    lines = [
        "# Python",
        "",
        "Written by `scripts/write_reference.py` from the docstrings.",
        "",
        "## `import windtunnel as wt`",
        "",
    ]
    for name in windtunnel.__all__:
        one = getattr(windtunnel, name)
        if inspect.isfunction(one):
            lines += list(_function(f"wt.{name}", one))
    lines += ["## `windtunnel.api`", ""]
    for name in api.__all__:
        one = getattr(api, name)
        if inspect.isfunction(one) and name not in windtunnel.__all__:
            lines += list(_function(f"api.{name}", one))
    return "\n".join(lines).rstrip() + "\n"


def _function(name: str, one: Any) -> Iterator[str]:
    signature = re.sub(r"<function [^>]*<lambda> at 0x[0-9a-f]+>", "…", f"{inspect.signature(one)}").replace("'", "")
    yield from (f"### `{name}`", "", "```python", f"{name}{signature}", "```", "")
    yield from ("```text", inspect.getdoc(one) or "", "```", "")


def _line(text: str) -> str:
    return " ".join(text.split("\x08", maxsplit=1)[0].split())


def _cell(text: str) -> str:
    return _line(str(text)).replace("|", "\\|")


PAGES = {"verbs.md": verbs, "fields.md": fields, "python.md": functions}
"""File → what writes it."""


def main() -> None:
    """Write the pages."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in PAGES.items():
        (folder / name).write_text(write(), encoding="utf-8")
    for section in sections():
        (folder / f"fields-{section}.md").write_text(section_fields(section), encoding="utf-8")


if __name__ == "__main__":
    main()
