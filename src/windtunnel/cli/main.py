"""The `windtunnel` command: one command a file, errors as lines and exit codes.

Exit codes: 0 success, 1 our own bug, 2 bad input, 3 no feasible answer, 4 a gate failed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from windtunnel.cli import (
    advise,
    ask,
    batch,
    calibrate,
    catalog,
    check,
    cluster,
    clusters,
    compare,
    devices,
    doctor,
    example,
    explain,
    fit,
    import_,
    init,
    laws,
    learn,
    mcp,
    measure,
    models,
    plan,
    reason,
    reproduce,
    rerun,
    schema,
    serve,
    stacks,
    studio,
    sweep,
    techniques,
    train,
    validate,
)
from windtunnel.cli import run as whole_run
from windtunnel.cli.complete_settings import words_of_bash
from windtunnel.cli.errors_shown import USAGE, show, show_usage
from windtunnel.cli.streams import INTERRUPTED, end_as_interrupted, exit_code, guard_streams, typed_words

if TYPE_CHECKING:
    from collections.abc import Sequence

VERBS = {
    "Ask": ("ask",),
    "Predict": ("train", "serve", "run", "cluster", "learn", "reason", "fit", "compare", "explain"),
    "Decide": ("plan", "advise", "sweep", "studio", "check"),
    "Catalogue": ("models", "devices", "clusters", "techniques", "laws", "stacks", "catalog"),
    "Bring and write files": ("init", "example", "import", "schema", "rerun", "batch", "mcp"),
    "Measure and trust": ("calibrate", "measure", "validate", "reproduce", "doctor"),
}
"""Heading of the help → commands below it."""


_UNCUT = 1000
"""Characters of a one-liner that the help shows: all of it; a line that is too long is wrapped."""


class _Verbs(TyperGroup):
    """Commands under headings. What the command line itself has wrong is kept for `--json`."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the options before the command."""
        with USAGE.kept():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Read the command's options and run it."""
        with USAGE.kept():
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, a heading a group."""
        told = {name for names in VERBS.values() for name in names}
        rest = tuple(name for name in self.list_commands(ctx) if name not in told)
        for heading, names in (*VERBS.items(), *((("Other", rest),) if rest else ())):
            rows = [(name, self.commands[name].get_short_help_str(_UNCUT)) for name in names if name in self.commands]
            with formatter.section(heading):
                formatter.write_dl(rows)


app = typer.Typer(
    name="windtunnel",
    cls=_Verbs,
    help="Predict how training and serving run on a cluster: time, memory, and why. No accelerator needed.",
    epilog='Start with a question: windtunnel "llama3-70b on 64 h100". Exit codes: 0 success, 1 a bug of ours, '
    "2 bad input, 3 no feasible answer, 4 a gate failed. WINDTUNNEL_DEBUG=1 shows tracebacks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        import windtunnel

        typer.echo(windtunnel.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Predict how training and serving run on a cluster: time, memory, and why. No accelerator needed."""


for _verb in (
    ask,
    train,
    serve,
    cluster,
    whole_run,
    learn,
    reason,
    fit,
    plan,
    advise,
    batch,
    compare,
    explain,
    calibrate,
    measure,
    validate,
    check,
    models,
    clusters,
    devices,
    laws,
    stacks,
    import_,
    init,
    example,
    schema,
    doctor,
    rerun,
    reproduce,
    mcp,
    studio,
):
    _verb.register(app)
app.add_typer(catalog.app, name="catalog")
app.add_typer(techniques.app, name="techniques")
app.add_typer(sweep.app, name="sweep")


COMMANDS = frozenset(
    [one.name or one.callback.__name__.replace("_", "-") for one in app.registered_commands if one.callback]
    + [str(group.name) for group in app.registered_groups]
)
"""Names of all commands; words that begin with none of them are a question."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Errors have been printed to standard error, a line each. With `--json` and no result they stand on standard output
    as well.
    """
    from windtunnel.cli.output import DETAIL, PRINTED
    from windtunnel.kernel_cache import compile_seconds, why_not_stored
    from windtunnel.versions import current_words

    before_s = compile_seconds()
    words = ask.as_command(current_words(typed_words() if arguments is None else list(arguments)), COMMANDS)
    as_json = "--json" in words
    PRINTED.clear()
    DETAIL.clear()
    USAGE.message = ""
    try:
        try:
            app(args=words, prog_name="windtunnel")
        finally:
            sys.stdout.flush()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        return show_usage(code, as_json=as_json)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return show(error, as_json=as_json)
    finally:
        if (seconds := compile_seconds() - before_s) > 1.0:
            why = f" (the installation's cannot be used: {why_not_stored()})" if why_not_stored() else ""
            sys.stderr.write(f"compiled kernels in {seconds:.0f} s, once; later runs start at once{why}\n")
    return 0


def _say_older_names() -> None:
    """Show warnings of older names as one line, without the line of code that noticed."""
    import warnings

    from windtunnel.versions import OlderName

    show_other = warnings.showwarning

    def show_one(message: Any, category: Any, *rest: Any, **more: Any) -> None:
        if category is OlderName:
            sys.stderr.write(f"warning: {message}\n")
        else:
            show_other(message, category, *rest, **more)

    warnings.showwarning = show_one


def main() -> None:
    """Entry point of the `windtunnel` script."""
    import os

    from windtunnel.machine_memory import keep_to_free_memory

    os.environ.setdefault("PYTHONSAFEPATH", "1")  # processes that we start import nothing from the working directory
    guard_streams()
    end_as_interrupted()
    if not {"calibrate", "measure"} & set(sys.argv[1:2]):  # drivers of accelerators map far more than they use
        keep_to_free_memory()
    _say_older_names()
    with words_of_bash():
        code = run()
    sys.exit(exit_code(code))


if __name__ == "__main__":
    main()
