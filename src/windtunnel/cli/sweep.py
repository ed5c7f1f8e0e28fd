"""`windtunnel sweep`: any command over any fields, resumable, on this machine or on Ray."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from windtunnel.cli.options import AsJson, Overrides, Scenario, Trust, Verbose, examples
from windtunnel.cli.output import console, note, print_json, print_line, telling

if TYPE_CHECKING:
    from windtunnel.sweeps.execute import Progress
    from windtunnel.sweeps.start import Sweep, Where


class _StartsWithScenario(TyperGroup):
    """A group whose first word may be a scenario in place of a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Take `start` where the first word is no command."""
        if args and args[0] not in self.commands:
            args = ["start", *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As `resolve_command`, also where an option comes first."""
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = ["start", *args]
        return list(super().parse_args(ctx, args))


app = typer.Typer(
    cls=_StartsWithScenario,
    help="Sweep any fields of a scenario; what was interrupted goes on.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a sweep.", show_default=False)]
Jobs = Annotated[
    int | None,
    typer.Option("-j", "--jobs", min=1, max=1024, help="Processes; 1: none but this. Absent: as many as CPUs."),
]
Ray = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Compute on a Ray cluster: its address, `auto`, or `local`."),
]


@app.command(
    "start",
    epilog=examples(
        "sweep my.yaml --vary plan.tp=1,2,4,8 --vary cluster.nodes=8..64:x2 --out runs/a",
        "sweep my.yaml --zip 'plan.tp=4,8 plan.pp=4,2' --draws 64 --out runs/b -j 8",
        "sweep status runs/a",
        "sweep resume runs/a",
        "sweep query runs/a",
    ),
)
def start(
    scenario: Scenario,
    overrides: Overrides = None,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="FIELD=VALUES", help="An axis: a=1,2,4, a=8..64:x2, a=1..9:+2, a=0.5..8:9."),
    ] = None,
    together: Annotated[
        list[str] | None,
        typer.Option("--zip", metavar="'A=… B=…'", help="Fields that vary together, as one axis."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for rows; an interrupted sweep goes on there.")
    ] = None,
    verb: Annotated[str | None, typer.Option(help="train, serve, fit, run, cluster, learn or reason.")] = None,
    draws: Annotated[int, typer.Option(help="Draws of each combination, paired between combinations.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 1,
    jobs: Jobs = None,
    ray: Ray = None,
    full: Annotated[bool, typer.Option("--full", help="Keep each whole result as JSON next to its columns.")] = False,
    extend: Annotated[bool, typer.Option("--extend", help="Add these cells to those of a folder's own sweep.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count cells, estimate CPU time, store nothing.")] = False,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Compute every combination of the axes.

    Illegal combinations are rows with their reason.
    """
    from windtunnel import api
    from windtunnel.cli.sources import scenario_source
    from windtunnel.errors import BadInput, Problem
    from windtunnel.sweeps.define import Asked

    del trust  # the option acts as it is read
    asked = Asked(
        source=scenario_source(scenario),
        vary=tuple(vary or ()),
        together=tuple(together or ()),
        overrides=tuple(overrides or ()),
        verb=verb,
        draws=draws,
        seed=seed,
        full=full,
    )
    if dry_run:
        _tell_estimate(api.estimate_sweep(asked), as_json)
        return
    if out is None:
        raise BadInput(Problem("--out", "is required: a folder for the rows, such as runs/a"))
    with telling("sweeping") as say:
        found = api.start_sweep(asked, out, _where(jobs, ray), extend=extend, report=lambda p: say(_words(p)))
    _tell(found, as_json)


@app.command("status", epilog=examples("sweep status runs/a", "sweep status runs/a --json"))
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Show how far a sweep is, and why cells have no answer."""
    from windtunnel import api

    found = api.sweep_status(folder)
    if as_json:
        print_json(found)
        return
    told = ", ".join(f"{count:,} {name}" for name, count in sorted(found["statuses"].items()))
    print_line(f"{found['verb']}: {found['done']:,} of {found['cells']:,} cells ({told or 'none yet'})")
    for row in found["failures"]:
        print_line(f"  {row['cells']:>7,} {row['status']}: {row['reason']}")
    if found["missing"]:
        print_line(f"go on with: windtunnel sweep resume {folder}")


@app.command("resume", epilog=examples("sweep resume runs/a -j 8", "sweep resume runs/a --retry"))
def resume(
    folder: Folder,
    jobs: Jobs = None,
    ray: Ray = None,
    retry: Annotated[bool, typer.Option("--retry", help="Compute errors and crashed cells again.")] = False,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Compute the cells that a folder lacks."""
    from windtunnel import api

    del trust  # the option acts as it is read
    with telling("sweeping") as say:
        found = api.resume_sweep(folder, _where(jobs, ray), retry=retry, report=lambda p: say(_words(p)))
    _tell(found, as_json)


@app.command(
    "query",
    epilog=examples(
        "sweep query runs/a",
        'sweep query runs/a "SELECT * FROM frontier"',
        "sweep query runs/a 'SELECT \"x.plan.tp\", min(step_time_s) FROM ok GROUP BY ALL' --json",
    ),
)
def query(
    folder: Folder,
    sql: Annotated[
        str | None,
        typer.Argument(
            metavar="SQL",
            help="One SELECT over cells, ok, draws, frontier, failures; absent: the cells with an answer, best first.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    unlocked: Annotated[
        bool,
        typer.Option("--unlocked", help="Allow every statement of DuckDB: read and write files, load extensions."),
    ] = False,
) -> None:
    """Print a sweep as a table, or ask it in SQL.

    The SQL reads nothing else.
    """
    from windtunnel import api

    frame = api.query_sweep(folder, "SELECT * FROM ok" if sql is None else sql, unlocked=unlocked)
    if sql is None:
        frame = _best_first(folder, frame)
    if as_json:
        print_json(_records(frame))
        return
    shown = _print_frame(folder, frame, everything=verbose)
    if len(frame) > shown:
        note(f"{shown} of {len(frame):,} rows are shown; --json prints all, `sweep export` writes them")


@app.command(
    "export", epilog=examples("sweep export runs/a cells.csv", "sweep export runs/a frontier.parquet --view frontier")
)
def export(
    folder: Folder,
    target: Annotated[Path, typer.Argument(metavar="FILE", help=".csv, .parquet or .json", show_default=False)],
    view: Annotated[str, typer.Option(help="cells, ok, draws, frontier or failures.")] = "cells",
    as_json: AsJson = False,
) -> None:
    """Write a view of a sweep to one file."""
    from windtunnel import api

    rows = api.export_sweep(folder, target, view)
    if as_json:
        print_json({"file": str(target), "view": view, "rows": rows})
        return
    note(f"{rows:,} rows  {target}")


def _print_frame(folder: Path, frame: Any, *, everything: bool) -> int:
    """Print a frame as a table, of wide ones the axes and the main figures; the number of rows that are shown."""
    from windtunnel.views.view import Column, Section, Table, View
    from windtunnel.writers.terminal import render

    some, numeric = frame.head(_MOST_ROWS), set(frame.select_dtypes("number").columns)
    names = [str(name) for name in frame.columns]
    shown = names if everything or len(names) <= _WIDE else _main_columns(folder, names)
    kept = [name for name in shown if everything or some[name].notna().any()]
    rows = [tuple(_shown(name, value) for name, value in zip(kept, row, strict=True)) for row in some[kept].values]
    table = Table(tuple(Column(_head(name), numeric=name in numeric) for name in kept), tuple(rows))
    count = f"{len(some):,} of {len(frame):,} rows" if len(frame) > len(some) else f"{len(frame):,} rows"
    console().print(render(View(title=count, sections=(Section("", (table,)),)), everything=everything))
    if len(names) > len(shown):
        note(f"{len(names) - len(shown):,} other columns: -v prints them, --json and `sweep export` write them")
    return len(some)


def _main_columns(folder: Path, names: list[str]) -> list[str]:
    """The axes, the figures to make best and those that the command's record names, as far as a frame has them."""
    from windtunnel.commands import COMMANDS, in_sweeps
    from windtunnel.sweeps.definition import read_manifest

    definition = read_manifest(folder)
    wanted = [*in_sweeps(definition.verb).objectives, "memory_fits", *COMMANDS.get(definition.verb).figures]
    found = [next((n for n in (name, f"{name}_p50", f"{name}_mean") if n in names), "") for name in wanted]
    axes = [f"x.{name}" for name in definition.fields]
    return [name for name in dict.fromkeys([*axes, *filter(None, found)]) if name in names]


def _best_first(folder: Path, frame: Any) -> Any:
    """Cells that fit first, and by the first figure that the frontier looks at."""
    from windtunnel.commands import in_sweeps
    from windtunnel.sweeps.definition import read_manifest

    goals = [name for name in in_sweeps(read_manifest(folder).verb).objectives if name in frame.columns]
    fits = [name for name in ("memory_fits",) if name in frame.columns]
    by = dict.fromkeys(fits, False) | dict.fromkeys(goals[:1], True)
    return frame.sort_values([*by], ascending=[*by.values()], kind="stable") if by else frame


def _head(name: str) -> str:
    """A column's name as people read it; axes keep theirs."""
    if name.startswith("x."):
        return name[2:]
    for ending in ("_p50", "_bytes", "_s"):
        if not name.endswith("per_s"):
            name = name.removesuffix(ending)
    for long, short in _SHORTER.items():
        name = name.replace(long, short)
    return name.replace("_", " ")


_SHORTER = {"memory_fits": "fits", "peak_memory_reserved": "memory", "_per_s": "/s", "_per_": " a "}
_WIDE = 10
"""Columns of a query from which on the main ones are printed."""
_MOST_ROWS = 200
_MOST_REASONS = 4


def _where(jobs: int | None, ray: str | None) -> Where:
    from windtunnel.sweeps.start import Where

    return Where(processes=jobs, ray=ray)


def _words(p: Progress) -> str:
    from windtunnel.progress import duration

    parts = [f"{p.done:,} of {p.total:,} cells"]
    odd = {name: count for name, count in p.statuses.items() if name != "ok"}
    parts += [f"{count:,} {name}" for name, count in sorted(odd.items())]
    if p.left_s is not None and p.done < p.total:
        parts.append(f"{duration(p.left_s)} left")
    return ", ".join(parts)


def _tell(found: Sweep, as_json: bool) -> None:
    """Print what was computed.

    Raises:
        Exit: Ctrl-C stopped it (130).
    """
    _tell_outcome(found, as_json)
    if found.outcome.interrupted:
        raise typer.Exit(130)


def _tell_outcome(found: Sweep, as_json: bool) -> None:
    outcome = found.outcome
    if outcome.quarantined:
        aside = f"{outcome.folder}/quarantine"
        note(f"{len(outcome.quarantined)} damaged files were set aside in {aside}; their cells are computed again")
    p = outcome.progress
    if outcome.interrupted:
        note(f"stopped: {p.done:,} of {p.total:,} cells are kept; go on with: windtunnel sweep resume {outcome.folder}")
    if as_json:
        from windtunnel import api

        print_json(api.sweep_status(outcome.folder) | {"seconds": p.seconds, "computed": p.done - p.before})
        return
    from windtunnel.progress import duration

    fresh = p.done - p.before
    rate = f", {fresh / p.seconds:,.0f} a second" if fresh and p.seconds > 0 else ""
    told = ", ".join(f"{count:,} {name}" for name, count in sorted(p.statuses.items()))
    words = told or "nothing was missing"
    print_line(f"{fresh:,} cells computed in {duration(p.seconds)}{rate} ({words}); {p.before:,} were there")
    from windtunnel import api

    found_all = api.sweep_status(outcome.folder)
    for row in found_all["failures"][:_MOST_REASONS]:
        print_line(f"  {row['cells']:>7,} {row['status']}: {row['reason']}")
    if len(found_all["failures"]) > _MOST_REASONS:
        print_line(f"  more reasons: windtunnel sweep status {outcome.folder}")
    if not found_all["statuses"].get("ok"):
        print_line("no cell has an answer")
        return
    print_line(f"see them: windtunnel sweep query {outcome.folder}")


def _tell_estimate(found: Any, as_json: bool) -> None:
    from dataclasses import asdict

    from windtunnel.progress import duration

    if as_json:
        print_json(asdict(found))
        return
    share = f"{100 * found.ok_share:.0f} % of {found.tried} tried have an answer"
    print_line(f"{found.cells:,} cells, {share}; about {duration(found.cpu_s)} of one core")
    for reason, count in sorted(found.reasons.items(), key=lambda item: -item[1])[:8]:
        print_line(f"  {count:>4} {reason}")


def _records(frame: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.to_dict("records")
    return [{str(name): _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    import math

    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(name: str, value: Any) -> str:
    from windtunnel.quantities import gib, seconds, three

    plain = _plain(value)
    if plain is None or str(plain) == "<NA>":
        return ""
    if isinstance(plain, bool):
        return "yes" if plain else "no"
    if not isinstance(plain, float) or name.startswith("x."):
        return f"{plain:g}" if isinstance(plain, float) else str(plain)
    of = name.removesuffix("_p50").removesuffix("_mean")
    if of.endswith("_bytes"):
        return gib(plain)
    return seconds(plain) if of.endswith("_s") and not of.endswith("per_s") else three(plain)
