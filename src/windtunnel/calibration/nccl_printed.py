"""What nccl-tests and rccl-tests print: size and time of collectives, of every release since NCCL 2.

The format is public (NVIDIA/nccl-tests, doc/PERFORMANCE.md, src/common.cu and src/util.cu): comment lines with ranks,
their hosts and devices, a header that names the columns, then a line a size; sizes are of the whole buffer in bytes,
times in microseconds, out of place first. Newer releases say which test it is; else the command above it, its file's
name or the ratio of busbw to algbw does. Columns differ by release and option (`root`, `redop`, `error` or `#wrong`,
`#bitdiff`, per iteration), so they are found by name. Logs label lines (mpirun, srun, pods, quotes): what stands before
the header's `#` stands before its rows. One file may hold several tests, and lines of NCCL in between.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from windtunnel.errors import BadInput, Problem
from windtunnel.files.reading import read_bytes

_RANK = re.compile(r"#\s*Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+\s+\[\S+\]\s*(.*)$")
_TEST = re.compile(
    r"(?<![a-z])(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all(?!v)|send_?recv|broadcast)", re.IGNORECASE
)
_STARTING = re.compile(r"Collective test starting:\s*(\S+)")
_COMMAND = re.compile(r"(?:^|[\s/])([a-z_0-9]+)_perf(?:_mpi)?(?=\s|$)")
_HEADER = re.compile(r"#\s+size\s+count\s+type\b.*$")
OPERATIONS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
    "broadcast": "broadcast",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """One run of one test."""

    path: str
    operation: str
    ranks: int
    hosts: int
    """0: not stated."""
    device: str
    """Name that the driver gives the device; empty: not stated."""
    rows: tuple[tuple[int, float], ...]
    """Bytes and seconds."""
    notes: tuple[str, ...] = ()
    """What was left out."""


@dataclass(slots=True)
class _Row:
    size: int
    seconds: float
    ratio: float
    """busbw over algbw; 0: too small to tell."""
    kind: str
    """Type and operation."""
    wrong: bool


@dataclass(slots=True, kw_only=True)
class _Run:
    """Lines of one run as they come."""

    named: str = ""
    ranks: list[int] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    device: str = ""
    columns: list[str] = field(default_factory=list)
    label: re.Pattern[str] = re.compile("")
    rows: list[_Row] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    """Lines that begin like a row and are none."""


_MOST_BYTES = 1 << 26


def read_nccl_tests(paths: Sequence[Path], ranks: int | None = None) -> list[Printed]:
    """Read printed tests.

    Args:
        paths: files, each of one test or of several.
        ranks: for files that list none.

    Raises:
        BadInput: everything wrong with the files, at once.
    """
    problems: list[Problem] = []
    found: list[Printed] = []
    for path in paths:
        try:
            lines = read_bytes(path, "FILES", most_bytes=_MOST_BYTES).decode("utf-8", "replace").splitlines()
        except BadInput as error:
            problems += error.problems
            continue
        found += _read(path, lines, ranks, problems)
    if not paths:
        problems.append(Problem("FILES", "are required: what all_reduce_perf and its like printed"))
    if problems:
        raise BadInput(problems)
    return found


def _read(path: Path, lines: Iterable[str], ranks: int | None, problems: list[Problem]) -> list[Printed]:
    before = len(problems)
    runs = [run for run in _runs(lines) if run.rows or run.cut]
    out, skipped = [], []
    for run in runs:
        if "cputime" in run.columns:
            rule = "has times of the host (-C): they are not the collectives'; run the test without"
            problems.append(Problem("", rule, file=str(path)))
        elif not run.rows:
            problems.append(Problem("", "is no row of the header's columns", file=str(path), line=run.cut[0]))
        elif (run.named or "").lower() and not _TEST.search(run.named):
            skipped.append(run.named)
        elif (one := _printed(run, path, ranks, problems)) is not None:
            out.append(one)
    if skipped and not out and len(problems) == before:
        rule = f"is of {', '.join(dict.fromkeys(skipped))}: only {', '.join(OPERATIONS.values())} say something here"
        problems.append(Problem("", rule, file=str(path)))
    if not runs:
        problems.append(Problem("", "holds no rows of nccl-tests below a header `# size count type …`", file=str(path)))
    return out


def _runs(lines: Iterable[str]) -> list[_Run]:
    runs, called = [_Run()], ""
    for number, line in enumerate(lines, 1):
        starting, rank, header = _STARTING.search(line), _RANK.search(line), _HEADER.search(line)
        threads, run = "# nThread" in line, runs[-1]
        if (threads or starting or rank or header) and (run.rows or run.cut):
            # without a list of ranks between them, a second table is of the same processes
            runs.append(
                _Run(named=run.named, ranks=run.ranks, hosts=run.hosts, device=run.device)
                if header and not called
                else _Run()
            )
            run = runs[-1]
        if rank is not None:
            run.ranks.append(int(rank[1]))
            run.hosts.append(rank[2])
            run.device = run.device or rank[3].strip()
        elif header is not None:
            run.columns = header[0].partition("|")[0].lstrip("#").split()
            run.label = re.compile(re.sub(r"\d", r"\\d", re.escape(line[: header.start()])))
            run.named, called = run.named or called, ""
        elif starting is not None:
            run.named = starting[1]
        elif threads:
            run.ranks, run.hosts = [], []  # what came before it stopped before its first row
        elif run.columns and (label := run.label.match(line)) and re.match(r"\s*\d+\s", line[label.end() :]):
            row = _row(line[label.end() :].split(), run.columns)
            if row is None:
                run.cut.append(number)
            elif row.size > 0 and row.seconds > 0:
                run.rows.append(row)
        elif (command := _COMMAND.search(line)) and "concluded" not in line:
            called = command[1]
    return runs


def _row(cells: list[str], columns: list[str]) -> _Row | None:
    try:
        at = columns.index("time")
        size, micro, algbw, busbw = int(cells[0]), float(cells[at]), float(cells[at + 1]), float(cells[at + 2])
    except (ValueError, IndexError):
        return None
    kind = " ".join(cells[columns.index(c)] for c in ("type", "redop") if c in columns)
    wrong = cells[columns.index("#wrong")] if "#wrong" in columns and len(cells) > columns.index("#wrong") else ""
    return _Row(size, micro / 1e6, busbw / algbw if algbw >= 1.0 else 0.0, kind, wrong.isdigit() and int(wrong) > 0)


def _printed(run: _Run, path: Path, ranks: int | None, problems: list[Problem]) -> Printed | None:
    if len(set(run.ranks)) < len(run.ranks):
        rule = f"lists rank {Counter(run.ranks).most_common(1)[0][0]} several times: processes that ran each for itself"
        problems.append(Problem("", f"{rule}; build nccl-tests with MPI=1", file=str(path)))
        return None
    count = max(run.ranks) + 1 if run.ranks else ranks or 0  # long lists are printed cut
    if count < 2:
        rule = "is required: the file lists no ranks" if not run.ranks else "of one: nothing was sent"
        problems.append(Problem("--ranks" if not run.ranks else "ranks", rule, file=str(path)))
        return None
    operation = _operation(run, path, count)
    if operation is None:
        rule = "does not say which test it is: name the file after it (all_gather_perf.txt)"
        problems.append(Problem("", rule, file=str(path)))
        return None
    notes = []
    kinds = list(dict.fromkeys(row.kind for row in run.rows))
    if len(kinds) > 1:
        notes.append(f"{path.name}: {operation}: rows of {kinds[0]} count, not those of {', '.join(kinds[1:])}")
    if run.cut:
        notes.append(f"{path.name}: {operation}: {len(run.cut)} rows are cut short and left out (line {run.cut[0]})")
    if wrong := sum(row.wrong for row in run.rows):
        notes.append(f"{path.name}: {operation}: {wrong} rows had wrong results")
    sizes: dict[int, list[float]] = {}
    for row in run.rows:
        if row.kind == kinds[0]:
            sizes.setdefault(row.size, []).append(row.seconds)
    rows = tuple((size, statistics.median(seconds)) for size, seconds in sizes.items())  # -N repeats every size
    hosts = len(set(run.hosts)) if len(run.ranks) == count else 0
    return Printed(
        path=str(path), operation=operation, ranks=count, hosts=hosts, device=run.device, rows=rows, notes=tuple(notes)
    )


def _operation(run: _Run, path: Path, ranks: int) -> str | None:
    found = _TEST.search(run.named) or _TEST.search(path.name)
    if found:
        return OPERATIONS[found[1].lower().replace("_", "")]
    ratios = sorted(row.ratio for row in run.rows if row.ratio)
    if ranks > 2 and ratios and abs(ratios[len(ratios) // 2] - 2 * (ranks - 1) / ranks) < 0.05:
        return "all_reduce"
    return None
