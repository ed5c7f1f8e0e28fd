"""Strategies that `windtunnel reason` knows, with their knobs."""

from __future__ import annotations

from typing import Any

from windtunnel.cli.output import console, print_json


def show_strategies(wanted: str | None, *, as_json: bool) -> None:
    """List all strategies, or show one with its knobs.

    Raises:
        BadInput: no strategy has the id.
    """
    from windtunnel.programs.strategies import STRATEGIES

    found = [_record(STRATEGIES.get(id, "strategy")) for id in ([wanted] if wanted else STRATEGIES.list())]
    if as_json:
        print_json(found)
    elif wanted is None:
        from windtunnel.cli.tables import listing

        rows = [(one["id"], one["summary"], ", ".join(one["knobs"])) for one in found]
        console().print(listing(("strategy", "what it is", "knobs"), rows))
    else:
        _show(found[0])


def _record(strategy: Any) -> dict[str, Any]:
    from windtunnel.techniques.described import allowed

    knobs = {
        name: {"default": knob.default, "allowed": allowed(knob), "doc": knob.doc}
        for name, knob in strategy.knobs.items()
    }
    return {
        "id": strategy.id,
        "summary": strategy.summary,
        "knobs": knobs,
        "tools": list(strategy.tools),
        "accuracy": strategy.success is not None,
        "source": strategy.source,
    }


def _show(one: dict[str, Any]) -> None:
    from windtunnel.cli.tables import fields_table

    values = {
        "accuracy": "by its law over the population" if one["accuracy"] else "not known, or as programs are drawn",
        "tools": ", ".join(one["tools"]),
        "source": one["source"],
    }
    for name, knob in one["knobs"].items():
        rule = f" ({knob['allowed']})" if knob["allowed"] else ""
        values[f"knob {name}"] = f"{knob['default']}{rule}: {knob['doc']}"
    shown = {k: v for k, v in values.items() if v}
    console().print(fields_table(f"{one['id']}: {one['summary']}", shown))
