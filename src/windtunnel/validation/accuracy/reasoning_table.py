"""The page of reasoning rows: `python -m windtunnel.validation.accuracy.reasoning_table ROWS.json… > PAGE`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windtunnel.validation.predict.report import ValidationReport
from windtunnel.validation.predict.validate import validate
from windtunnel.validation.rows.row_files import load_rows

_HEAD = """# Accuracy: reasoning

Measured outcomes of repeated attempts, votes, selection and feedback beside what a population says of them
([forms and fits](../internals/population.md)). Each is predicted from a stated part of its row: `problem_successes`
from 100 attempts drawn with seed 1, tables from their two smallest k, the others from their first figure. Errors are of
the measured value; where nothing was solved at all, they are plain differences. Written by `make accuracy-reasoning`.

These rows were there when forms and coefficients were chosen: the worth of feedback, the separation of reward models
and the usual wrong answers were fitted on the rows of their kind, and so was the width that a table of pass@k without a
temperature gets. Laws of `problem_successes`, `pass_at_k` and `all_of_k` come from their own row alone. Rows of other
models are kept back and judge.

| kind | task | figure | predicted | mean absolute error | bias | inside the band of 80 % |
|---|---|---|---:|---:|---:|---:|"""


def reasoning_page(report: ValidationReport) -> str:
    """Markdown: a line for each (kind, task, figure) that is predicted, and why others are not."""
    lines = [_HEAD]
    for entry in report.summary:
        if entry.n_predicted:
            figures = (entry.mape, entry.bias, entry.coverage80)
            cells = " | ".join("" if x is None else f"{100 * x:.1f} %" for x in figures)
            name = f"{entry.row_kind} | {entry.family} | {entry.metric}"
            lines.append(f"| {name} | {entry.n_predicted} of {entry.n} | {cells} |")
    reasons: dict[tuple[str, str], int] = {}
    for row in report.rows:
        if row.predicted is None:
            key = (row.row_kind, row.reason)
            reasons[key] = reasons.get(key, 0) + 1
    lines += ["", "## Not predicted", "", "| kind | figures | why |", "|---|---:|---|"]
    lines += [f"| {kind} | {count:,} | {reason} |" for (kind, reason), count in sorted(reasons.items())]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> None:
    """Print the page of the files named."""
    rows: list[dict[str, Any]] = [row for name in arguments for row in load_rows(Path(name))]
    sys.stdout.write(reasoning_page(validate(rows)))


if __name__ == "__main__":
    main(sys.argv[1:])
