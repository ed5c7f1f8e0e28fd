"""The page of reasoning rows: `python -m windtunnel.validation.accuracy.reasoning_table ROWS.json… > PAGE`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windtunnel.validation.predict.report import ValidationReport
from windtunnel.validation.predict.validate import validate
from windtunnel.validation.rows.row_files import load_rows, shipped_reasoning_rows

_HEAD = """# Accuracy: reasoning

Measured outcomes of repeated attempts, votes, selection and feedback beside what a population says of them
([forms and fits](../internals/population.md)). Each is predicted from a stated part of its row: `problem_successes`
from 100 attempts drawn with seed 1, tables from their two smallest k, the others from their first figure. Errors are of
the measured value; where nothing was solved at all, they are plain differences. Written by `make accuracy-reasoning`.

These rows were there when forms and coefficients were chosen: the worth of feedback, the separation of reward models
and the usual wrong answers were fitted on the rows of their kind, and so was the price of a higher temperature in tables
that choose one for each k. Laws of `problem_successes`, of tables of one temperature and of `all_of_k` come from their
own row alone. Rows of other models are kept back and judge; with models left out one by one the same coefficients are
off as [population](../internals/population.md#left-out-one-by-one) says. Width is that of the band over the predicted
figure.

"""
_TABLE = """| kind | task | figure | predicted | mean absolute error | bias | inside the band of 80 % | width |
|---|---|---|---:|---:|---:|---:|---:|"""
_PUBLIC = """
## Public tables of other models

Tables of pass@k, pass^k and votes from public repositories, which come with the package
(`src/windtunnel/validation/rows/measured/reasoning/`). None set the forms above. One number was fitted on each of two of
them: the share of attempts at agents' tasks that fail whatever the task on τ²-bench's leaderboard (0.04 is best in every
domain but one, 0.03 to 0.05 as good), and the share of broken problems on HumanEval and MBPP. The others set nothing.

"""


def reasoning_page(report: ValidationReport, public: ValidationReport | None = None) -> str:
    """Markdown: a line for each (kind, task, figure) that is predicted, and why others are not.

    Args:
        report: of measured rows.
        public: of the tables that come with the package.
    """
    lines = [_HEAD + _TABLE, *_lines(report)]
    if public is not None:
        lines += [_PUBLIC + _TABLE, *_lines(public)]
    reasons: dict[tuple[str, str], int] = {}
    for row in report.rows:
        if row.predicted is None:
            key = (row.row_kind, row.reason)
            reasons[key] = reasons.get(key, 0) + 1
    lines += ["", "## Not predicted", "", "| kind | figures | why |", "|---|---:|---|"]
    lines += [f"| {kind} | {count:,} | {reason} |" for (kind, reason), count in sorted(reasons.items())]
    return "\n".join(lines) + "\n"


def _lines(report: ValidationReport) -> list[str]:
    lines = []
    for entry in report.summary:
        if entry.n_predicted:
            figures = (entry.mape, entry.bias, entry.coverage80, entry.mean_relative_width)
            cells = " | ".join("" if x is None else f"{100 * x:.1f} %" for x in figures)
            name = f"{entry.row_kind} | {entry.family} | {entry.metric}"
            lines.append(f"| {name} | {entry.n_predicted} of {entry.n} | {cells} |")
    return lines


def main(arguments: Sequence[str]) -> None:
    """Print the page of the files named."""
    rows: list[dict[str, Any]] = [row for name in arguments for row in load_rows(Path(name))]
    sys.stdout.write(reasoning_page(validate(rows), validate(shipped_reasoning_rows())))


if __name__ == "__main__":
    main(sys.argv[1:])
