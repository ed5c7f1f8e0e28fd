"""`windtunnel rerun`: reproduce a stored result and say whether it is equal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, print_json, progress
from windtunnel.cli.sources import planner_choices, stored_result, stored_serving

_NOT_COMPARED = {"simulated_in_s", "version", "schema_version", "trace", "published", "scenario_name"}
_DIGITS = 9
_SHOWN = 40
"""Differences that the terminal lists."""


def rerun(
    result: Annotated[
        str, typer.Argument(metavar="RESULT", help="What `train --json` or `serve --json` wrote.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Repeat a stored result and say whether it is equal.

    Results of earlier releases are read too. Every figure is compared to 9 digits, and each that moved is listed with
    its change, next to what changed in results since; exits 4 when one differs.
    """
    import windtunnel
    from windtunnel import api
    from windtunnel.errors import BadInput, GateFailed
    from windtunnel.versions import RESULT_CHANGES, RESULT_SCHEMA

    stored = stored_result(result)
    served = stored_serving(result) if stored is None else None
    kept = (served or stored or {}).get("scenario")
    if not kept or not isinstance(kept, dict):
        raise BadInput(f"{result}: not a result of `train --json` or `serve --json` (no figures, or no scenario in it)")
    schema = stored_schema(served or stored or {}, result)
    with progress("simulating"):
        if served is not None:
            stored, fresh = served, api.simulate_serving(served.get("scenario") or {}).to_dict()
        else:
            assert stored is not None
            fresh = api.simulate_training(
                stored["scenario"], chosen_by_planner=planner_choices(stored.get("assumed"))
            ).to_dict()
    differences = _differences(stored, fresh)
    report = {
        "equal": not differences,
        "version_stored": stored.get("version"),
        "version_now": windtunnel.__version__,
        "schema_stored": schema,
        "schema_now": RESULT_SCHEMA,
        "schema_changes": [text for number, text in RESULT_CHANGES.items() if number > schema],
        "input_hash_equal": stored.get("input_hash") == fresh.get("input_hash"),
        "differences": [
            {"field": f, "stored": was, "now": now, "change": _change(was, now)} for f, was, now in differences
        ],
        "keys_gone": [key for key in stored if key not in fresh],
        "keys_new": [key for key in fresh if key not in stored and key not in _NOT_COMPARED],
    }
    if as_json:
        print_json(report)
    else:
        _show(report)
    if differences:
        raise GateFailed(f"{result}: {len(differences)} figures differ")


def stored_schema(stored: dict[str, Any], file: str) -> int:
    """`schema_version` of a stored result; 0 of those without one.

    Raises:
        BadInput: it is no whole number, or that of a later release.
    """
    from windtunnel.errors import BadInput, Problem
    from windtunnel.versions import RESULT_SCHEMA

    number = stored.get("schema_version", 0)
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise BadInput(Problem("schema_version", "must be a whole number", number, file=file))
    if number > RESULT_SCHEMA:
        rule = f"is of a later release than this one, which reads results up to {RESULT_SCHEMA}: install the newer one"
        raise BadInput(Problem("schema_version", rule, number, file=file))
    return number


def _differences(stored: dict[str, Any], fresh: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Leaves of the stored result that came out otherwise, in the order of the file."""
    out: list[tuple[str, Any, Any]] = []

    def walk(path: str, was: Any, now: Any) -> None:
        if isinstance(was, dict) and isinstance(now, dict):
            for key in [*was, *(key for key in now if key not in was)]:
                if path or key not in _NOT_COMPARED:
                    walk(f"{path}.{key}" if path else key, was.get(key), now.get(key))
        elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
            for i, pair in enumerate(zip(was, now, strict=True)):
                walk(f"{path}[{i}]", *pair)
        elif not _equal(was, now):
            out.append((path, was, now))

    kept = {k: v for k, v in fresh.items() if k in stored}
    if stored.get("interval") is None:
        kept.pop("interval", None)
    memory = stored.get("memory")
    if isinstance(memory, dict) and isinstance(kept.get("memory"), dict):
        names = kept["memory"].keys()
        stored = stored | {"memory": {k: v for k, v in memory.items() if k in names}}
    walk("", {k: v for k, v in stored.items() if k in kept}, kept)
    return out


def _equal(was: Any, now: Any) -> bool:
    if isinstance(was, float) or isinstance(now, float):
        try:
            return f"{float(was):.{_DIGITS - 1}e}" == f"{float(now):.{_DIGITS - 1}e}"
        except (TypeError, ValueError):
            return was is now
    return bool(was == now)


def _change(was: Any, now: Any) -> float | None:
    """Relative change of a figure; None of what is no figure, or was zero."""
    numbers = [x for x in (was, now) if isinstance(x, int | float) and not isinstance(x, bool)]
    return now / was - 1 if len(numbers) == 2 and was else None


def _show(report: dict[str, Any]) -> None:
    out = console()
    if report["version_stored"] != report["version_now"]:
        out.print(f"stored by windtunnel {report['version_stored']}, this is {report['version_now']}")
    for text in report["schema_changes"]:
        out.print(f"changed since: {text}")
    for name, keys in (("no longer in results", report["keys_gone"]), ("new in results", report["keys_new"])):
        if keys:
            out.print(f"{name}: {', '.join(keys)}")
    if report["equal"]:
        out.print("equal: every figure agrees to 9 digits")
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title in ("differs", "stored", "now", "change"):
        table.add_column(title)
    for item in report["differences"][:_SHOWN]:
        change = "" if item["change"] is None else f"{100 * item['change']:+.3g} %"
        table.add_row(item["field"], str(item["stored"]), str(item["now"]), change)
    out.print(table)
    if (more := len(report["differences"]) - _SHOWN) > 0:
        out.print(f"and {more} more, which --json lists")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=examples("train my.yaml --json > result.json", "rerun result.json"))(rerun)
