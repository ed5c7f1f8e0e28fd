"""From a cell to its row. What goes wrong in a cell is its row, and stops nothing."""

from __future__ import annotations

import socket
import time
import traceback
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from windtunnel.commands import COMMANDS, in_sweeps
from windtunnel.commands.base import Question, Shared
from windtunnel.errors import BadInput, Infeasible, WindtunnelError
from windtunnel.kernel_cache import compile_seconds
from windtunnel.scenarios.source import FieldsInFolder
from windtunnel.specs.settings import canonical, with_settings
from windtunnel.sweeps.cells import Cell
from windtunnel.sweeps.columns import columns_of
from windtunnel.sweeps.definition import Definition

OK, INVALID, INFEASIBLE, ERROR, CRASHED = "ok", "invalid", "infeasible", "error", "crashed"
"""Status of a cell: answered; a combination that is not allowed; one without an answer; a bug of ours; a cell whose
process died again and again."""
Row = dict[str, Any]
COLD = "cold"
COMPILED = "compiled_s"
"""Entries of a row that estimates read and that are not stored: whether it is of its process's first cell, which loads
tables, and its seconds of compiling, which do not come again."""


@dataclass(slots=True)
class Computer:
    """Computes cells of one sweep in one process."""

    definition: Definition
    shared: Shared = field(default_factory=Shared)
    _cold: bool = True

    def row(self, cell: Cell, attempt: int = 1) -> Row:
        """One cell as a row; never raises but for interrupts."""
        d = self.definition
        begun, compiled_s = time.perf_counter(), compile_seconds()
        started = datetime.now(UTC).replace(tzinfo=None)
        out = head(d, cell, attempt)
        if self._cold:
            self._cold = False
            out[COLD] = True
        try:
            fields = with_settings(d.scenario, cell.settings)
            question = Question(FieldsInFolder(fields, Path(d.folder)), cell.draw, d.seed)
            result = result_of(d.verb, question, self.shared)
            status, reason, values = OK, "", columns_of(result)
            if d.full:
                values["result_json"] = canonical(result)
        except KeyError as error:
            status, reason, values = INVALID, f"{error.args[0]}: no such field", {}
        except BadInput as error:
            status, reason, values = INVALID, "; ".join(str(p) for p in error.problems), {}
        except Infeasible as error:
            status, reason, values = INFEASIBLE, str(error), {}
        except WindtunnelError as error:
            status, reason, values = ERROR, str(error), {}
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            status, reason, values = ERROR, f"{type(error).__name__}: {error} ({where})", {}
        if compile_seconds() > compiled_s:
            out[COMPILED] = compile_seconds() - compiled_s
        return out | values | {"status": status, "reason": reason, "started_at": started,
                               "wall_s": time.perf_counter() - begun}  # fmt: skip


def result_of(id: str, question: Question, shared: Shared) -> dict[str, Any]:
    """The result of a command, as `--json` prints it, for one cell."""
    command = COMMANDS.get(id)
    draws, facts = command.draws, in_sweeps(id)
    source = question.source
    if question.draw is not None and draws is not None:
        if draws.result is not None:
            return draws.result(question, shared)
        if draws.settings is not None:
            source = question.with_settings(draws.settings(question))
    result: dict[str, Any] = command.run(source, full=False, **facts.options(shared)).to_dict()
    return result


def head(definition: Definition, cell: Cell, attempt: int) -> Row:
    """Columns that every row has, whatever becomes of its cell."""
    from windtunnel import __version__

    return {
        "cell": cell.id,
        "verb": definition.verb,
        "status": "",
        "reason": "",
        "draw": cell.draw,
        **{f"x.{name}": _typed(value) for name, value in cell.settings},
        "attempt": attempt,
        "version": __version__,
        "physics": definition.physics,
        "host": socket.gethostname(),
    }


def crashed(definition: Definition, cell: Cell, attempt: int, reason: str) -> Row:
    """The row of a cell whose process died."""
    started = datetime.now(UTC).replace(tzinfo=None)
    return head(definition, cell, attempt) | {
        "status": CRASHED,
        "reason": reason,
        "started_at": started,
        "wall_s": 0.0,
    }


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a sweep as a job of processes."""

    definition: Definition

    def computer(self) -> Computer:
        """See `executors.Job`."""
        return Computer(self.definition)

    def crashed(self, task: Any, reason: str) -> Row:
        """See `executors.Job`."""
        return crashed(self.definition, task.cell, task.attempt, reason)


def _typed(value: Any) -> Any:
    """A value as a column can hold it: lists and mappings as JSON."""
    return value if isinstance(value, bool | int | float | str) or value is None else canonical(value)
