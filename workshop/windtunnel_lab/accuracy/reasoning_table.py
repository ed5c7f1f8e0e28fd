"""The page of reasoning rows: `python -m windtunnel_lab.accuracy.reasoning_table ROWS.json… > PAGE`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.validation.predict.report import ValidationReport
from windtunnel.validation.predict.validate import validate
from windtunnel.validation.rows.row_files import load_rows, shipped_reasoning_rows
from windtunnel_lab.fit.reasoning import LeftOut, left_out

_HEAD = """# Accuracy: reasoning

Measured outcomes of repeated attempts, votes, selection and feedback beside what a population says of them
([forms and fits](../internals/population.md)). Each is predicted from a stated part of its row: `problem_successes`
from 100 attempts drawn with seed 1, tables from their two smallest k, the others from their first figure. Errors are of
the measured value; where nothing was solved at all, they are plain differences. Written by `make accuracy-reasoning`.

These rows were there when forms and coefficients were chosen: the worth of feedback, the separation of reward models
and the usual wrong answers were fitted on the rows of their kind, and so were the cost of a higher temperature in
tables that choose one for each k and that of sampling beside greedy answers. Laws of `problem_successes`, of tables of
one temperature and of `all_of_k` come from their own row alone. Rows of other models are kept back and judge. Width is
that of the band over the predicted figure.

"""
_TABLE = """| kind | task | figure | predicted | mean absolute error | bias | inside the band of 80 % | width |
|---|---|---|---:|---:|---:|---:|---:|"""
_LEFT_OUT = """
## Left out one by one

The same figures from coefficients that were fitted without their model (reward models: without their task, as both rows
are of one model).

| coefficient and task | figures | mean absolute error | bias | inside the band of 80 % | width |
|---|---:|---:|---:|---:|---:|"""
_PUBLIC = """
## Public tables of other models

Tables of pass@k, pass^k and votes from public repositories, which come with the package
(`src/windtunnel/validation/rows/measured/reasoning/`). Two numbers were fitted on some of them: the share of attempts
of agents that fail whatever the task, on τ²-bench's leaderboard (0.04; 0.03 to 0.05 is about as good, and retail alone
asks for 0.07), and the share of broken problems, on tables of HumanEval and MBPP. The others set nothing.

"""


def reasoning_page(
    report: ValidationReport, public: ValidationReport | None = None, left_out: Iterable[LeftOut] = ()
) -> str:
    """Markdown: a line for each (kind, task, figure) that is predicted, and why others are not.

    Args:
        report: of measured rows.
        public: of the tables that come with the package.
        left_out: figures next to what coefficients of other models say of them.
    """
    lines = [_HEAD + _TABLE, *_lines(report)]
    if without := _left_out_lines(left_out):
        lines += [_LEFT_OUT, *without]
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


def _left_out_lines(figures: Iterable[LeftOut]) -> list[str]:
    groups: dict[str, list[LeftOut]] = {}
    for figure in figures:
        groups.setdefault(figure.what, []).append(figure)
    lines = []
    for what, own in groups.items():
        errors = np.array([(x.predicted - x.measured) / x.measured for x in own])
        inside = np.mean([x.low <= x.measured <= x.high for x in own])
        width = np.mean([(x.high - x.low) / x.predicted for x in own])
        shares = (np.abs(errors).mean(), errors.mean(), inside, width)
        lines.append(f"| {what} | {len(own)} | " + " | ".join(f"{100 * x:.1f} %" for x in shares) + " |")
    return lines


def main(arguments: Sequence[str]) -> None:
    """Print the page of the files named."""
    rows: list[dict[str, Any]] = [row for name in arguments for row in load_rows(Path(name))]
    sys.stdout.write(reasoning_page(validate(rows), validate(shipped_reasoning_rows()), left_out(rows)))


if __name__ == "__main__":
    main(sys.argv[1:])
