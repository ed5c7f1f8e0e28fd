"""What `windtunnel learn` can put together: tasks, algorithms, compressors, inner optimizers and aggregators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windtunnel.cli.output import console, print_json

if TYPE_CHECKING:
    from windtunnel.registry import Registry


def show_parts(wanted: str | None, *, as_json: bool) -> None:
    """List all parts, or show those of one id with their knobs.

    Raises:
        BadInput: no part has the id.
    """
    found = [
        _record(group, id, kind)
        for group, registry in _registries().items()
        for id, kind in sorted(registry.items())
        if wanted in (None, id)
    ]
    if not found:
        raise _unknown(wanted or "")
    if as_json:
        print_json(found)
    elif wanted is None:
        _list(found)
    else:
        for one in found:
            _show(one)


def _registries() -> dict[str, Registry[Any]]:
    from windtunnel.learning.aggregators import AGGREGATORS
    from windtunnel.learning.algorithms import ALGORITHMS
    from windtunnel.learning.compressors import COMPRESSORS
    from windtunnel.learning.inner import INNER
    from windtunnel.learning.tasks import TASKS

    return {
        "task": TASKS,
        "algorithm": ALGORITHMS,
        "compressor": COMPRESSORS,
        "inner optimizer": INNER,
        "aggregator": AGGREGATORS,
    }


def _unknown(wanted: str) -> Exception:
    from windtunnel.errors import BadInput, nearest_name

    known = [id for registry in _registries().values() for id in registry.list()]
    nearest = nearest_name(wanted, known)
    near = f"; nearest: {nearest}" if nearest else ""
    return BadInput(f"{wanted}: no task, algorithm, compressor, inner optimizer or aggregator has this id{near}")


def _record(group: str, id: str, kind: Any) -> dict[str, Any]:
    from windtunnel.techniques.described import allowed

    knobs = {
        name: {"default": knob.default, "allowed": allowed(knob), "doc": knob.doc} for name, knob in kind.knobs.items()
    }
    out = {"kind": group, "id": id, "summary": kind.summary, "knobs": knobs, "source": kind.source}
    if group == "algorithm":
        out |= {"family": kind.family, "waits": kind.driver != "arrivals", "deviates": kind.deviates}
    if group == "task":
        out["splits"] = list(kind.splits)
    return out


def _list(found: list[dict[str, Any]]) -> None:
    from windtunnel.cli.tables import listing

    for at, group in enumerate(dict.fromkeys(one["kind"] for one in found)):
        if at:
            console().print()
        rows = [(one["id"], one["summary"], ", ".join(one["knobs"])) for one in found if one["kind"] == group]
        console().print(listing((group, "what it is", "knobs"), rows))


def _show(one: dict[str, Any]) -> None:
    from windtunnel.cli.tables import fields_table

    values: dict[str, Any] = {"kind": one["kind"]}
    if "waits" in one:
        values["workers"] = "wait for each other" if one["waits"] else "do not wait: the clock decides the order"
        values["family"] = one["family"]
        values["deviates"] = one["deviates"]
    values["splits"] = ", ".join(one.get("splits", ()))
    values["source"] = one["source"]
    for name, knob in one["knobs"].items():
        rule = f" ({knob['allowed']})" if knob["allowed"] else ""
        values[f"knob {name}"] = f"{_default(knob['default'])}{rule}: {knob['doc']}"
    shown = {k: v for k, v in values.items() if v}
    console().print(fields_table(f"{one['id']}: {one['summary']}", shown))


def _default(value: Any) -> str:
    if value is None:
        return "absent"
    return str(value).lower() if isinstance(value, bool) else str(value)
