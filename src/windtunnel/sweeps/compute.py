"""From a cell to its row. What goes wrong in a cell is its row, and stops nothing."""

from __future__ import annotations

import socket
import time
import traceback
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from windtunnel.errors import BadInput, Infeasible, WindtunnelError
from windtunnel.specs.source import FieldsInFolder
from windtunnel.sweeps.cells import Cell, canonical, with_settings
from windtunnel.sweeps.columns import columns_of
from windtunnel.sweeps.definition import Definition
from windtunnel.sweeps.verbs import VERBS, Question, Shared

OK, INVALID, INFEASIBLE, ERROR, CRASHED = "ok", "invalid", "infeasible", "error", "crashed"
"""Status of a cell: answered; a combination that is not allowed; one without an answer; a bug of ours; a cell whose
process died again and again."""
Row = dict[str, Any]


@dataclass(slots=True)
class Computer:
    """Computes cells of one sweep in one process."""

    definition: Definition
    shared: Shared = field(default_factory=Shared)

    def row(self, cell: Cell, attempt: int = 1) -> Row:
        """One cell as a row; never raises but for interrupts."""
        d = self.definition
        begun = time.perf_counter()
        started = datetime.now(UTC).replace(tzinfo=None)
        out = head(d, cell, attempt)
        try:
            fields = with_settings(d.scenario, cell.settings)
            question = Question(FieldsInFolder(fields, Path(d.folder)), cell.draw, d.seed)
            result = VERBS.get(d.verb).answer(question, self.shared)
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
        return out | values | {"status": status, "reason": reason, "started_at": started,
                               "wall_s": time.perf_counter() - begun}  # fmt: skip


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


def _typed(value: Any) -> Any:
    """A value as a column can hold it: lists and mappings as JSON."""
    return value if isinstance(value, bool | int | float | str) or value is None else canonical(value)
