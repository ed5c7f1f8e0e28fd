"""How a failed command ends: lines on standard error, one JSON document with `--json`, and the exit code."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST = 240
"""Characters of an unexpected error's own text that are shown."""


class _Usage:
    """What the command line itself has wrong, as the library that reads it says."""

    message = ""

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the text of an error of usage that passes through."""
        try:
            yield
        except Exception as error:
            if callable(text := getattr(error, "format_message", None)):
                self.message = str(text())
            raise


USAGE = _Usage()


def show(error: Exception, *, as_json: bool) -> int:
    """Print an error as one line a problem and return the exit code that it stands for.

    Args:
        error: what ended the command.
        as_json: print the problems on standard output as well, where no result stands there.
    """
    if os.environ.get("WINDTUNNEL_DEBUG"):
        import traceback

        traceback.print_exception(error)
    problems, code = _problems(error)
    prefix = "" if code == 1 else "error: "
    for line in (str(error).splitlines() or [type(error).__name__]) if _ours(error) else _lines(problems):
        sys.stderr.write(f"{prefix}{line}\n")
    _document(problems, code, as_json=as_json)
    return code


def show_usage(code: int, *, as_json: bool) -> int:
    """Print as JSON what the command line itself has wrong, which stands on standard error already.

    Args:
        code: exit code of the command.
        as_json: whether `--json` was given.

    Returns:
        The exit code.
    """
    if code == 2 and USAGE.message:
        _document([_problem(message=USAGE.message)], code, as_json=as_json)
    return code


def _ours(error: Exception) -> bool:
    from windtunnel.errors import WindtunnelError

    return isinstance(error, WindtunnelError)


def _lines(problems: list[dict[str, Any]]) -> list[str]:
    return [str(one["message"]) for one in problems]


def _problems(error: Exception) -> tuple[list[dict[str, Any]], int]:
    """Each problem as plain data, and the exit code."""
    from windtunnel.errors import BadInput, Infeasible, WindtunnelError

    if isinstance(error, BadInput):
        return [_of_input(problem) for problem in error.problems], error.exit_code
    if isinstance(error, Infeasible):
        return [_problem(message=error.message, hint=error.nearest_miss)], error.exit_code
    if isinstance(error, WindtunnelError):
        return [_problem(message=line) for line in str(error).splitlines()], error.exit_code
    if isinstance(error, MemoryError):
        from windtunnel.machine_memory import refusal

        return [_problem(message=refusal(error))], BadInput.exit_code
    if isinstance(error, OSError) and error.filename is not None:
        why = (error.strerror or "cannot be used").lower()
        return [_problem(file=str(error.filename), message=f"{error.filename}: {why}")], BadInput.exit_code
    text = " ".join(str(error).split())
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return [_problem(message=f"internal error: {type(error).__name__}: {text} (WINDTUNNEL_DEBUG=1 shows where)")], 1


def _of_input(problem: Any) -> dict[str, Any]:
    """A problem of the input as plain data."""
    data = problem.as_dict()
    hint = f"did you mean '{problem.nearest}'?" if problem.nearest is not None else None
    return _problem(
        file=data["file"],
        line=data["line"],
        field=data["field"] or None,
        value=data.get("value"),
        message=data["rule"],
        hint=hint,
    )


def _problem(**known: Any) -> dict[str, Any]:
    """One problem with all its keys; what is not known is null."""
    return dict.fromkeys(("file", "line", "field", "value", "message", "hint")) | known


def _document(problems: list[dict[str, Any]], code: int, *, as_json: bool) -> None:
    """Write the problems to standard output, unless a result stands there."""
    from windtunnel.cli.output import PRINTED, print_json
    from windtunnel.errors import shown

    if not as_json or PRINTED:
        return
    for one in problems:
        if isinstance(one["value"], dict | list | tuple | float):  # not all of these are JSON
            one["value"] = shown(one["value"])
    print_json({"error": {"problems": problems, "exit_code": code}})
