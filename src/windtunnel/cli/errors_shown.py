"""How a failed command ends: lines on standard error, one JSON document with `--json`, and the exit code."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from windtunnel.error_records import problem_record, problems_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Usage:
    """What the command line itself has wrong, as the library that reads it says."""

    message = ""

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the text of an error of usage that passes through."""
        try:
            yield
        except Exception as error:
            _suggest_a_field(error)
            if callable(text := getattr(error, "format_message", None)):
                self.message = str(text())
            raise


USAGE = _Usage()


def _suggest_a_field(error: Exception) -> None:
    """Answer an option that is a field of the scenario, such as `--tp`, with the setting that states it."""
    name = str(getattr(error, "option_name", "")).lstrip("-").replace("-", "_")
    if not name or not hasattr(error, "possibilities"):
        return
    from windtunnel.scenarios.explain import path_of

    path = path_of(name)
    if path is not None:
        words = sys.argv[1:]
        at = next((i for i, word in enumerate(words) if word.lstrip("-").replace("-", "_") == name), len(words))
        stated = next(iter(words[at + 1 : at + 2]), "")
        error.possibilities = [f"--set {path}={stated or 'VALUE'}"]


def show(error: Exception, *, as_json: bool) -> int:
    """Print an error as one line a problem and return the exit code that it stands for.

    Args:
        error: what ended the command.
        as_json: print the problems on standard output as well, where no result stands there.
    """
    if os.environ.get("WINDTUNNEL_DEBUG"):
        import traceback

        traceback.print_exception(error)
    from windtunnel.errors import printable

    problems, code = problems_of(error)
    prefix = "" if code == 1 else "error: "
    for line in (str(error).splitlines() or [type(error).__name__]) if _ours(error) else _lines(problems):
        sys.stderr.write(f"{prefix}{printable(line)}\n")
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
        _document([problem_record(message=USAGE.message)], code, as_json=as_json)
    return code


def _ours(error: Exception) -> bool:
    from windtunnel.errors import WindtunnelError

    return isinstance(error, WindtunnelError)


def _lines(problems: list[dict[str, Any]]) -> list[str]:
    return [str(one["message"]) for one in problems]


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
