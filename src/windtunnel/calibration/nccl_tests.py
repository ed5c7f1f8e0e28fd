"""Profiles of networks from what nccl-tests (and rccl-tests) print: size, time, algbw and busbw of collectives.

The format is public (NVIDIA/nccl-tests, doc/PERFORMANCE.md and src/common.cu): comment lines with ranks, their
hosts and devices, a header that names the columns, then a line a size; sizes are of the whole buffer in bytes, times in
microseconds, out of place first. Newer releases say which test it is; else its file's name or the ratio of busbw to
algbw does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from windtunnel.calibration.cases import Case
from windtunnel.calibration.profile import Calibration, from_tables
from windtunnel.calibration.store import Measurement, Store
from windtunnel.errors import BadInput, Problem
from windtunnel.specs.cluster import ClusterSpec

_RANK = re.compile(r"^#\s*Rank\s+\d+\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+\s+\[\S+\]\s*(.*)$")
_TEST = re.compile(r"(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|send_?recv|broadcast)", re.IGNORECASE)
_HEADER = re.compile(r"^#\s+size\s+count\s+type")
OPERATIONS = {
    "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter", "alltoall": "all_to_all",
    "sendrecv": "send_recv", "broadcast": "broadcast",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Printed:
    """One run of one test."""

    path: str
    operation: str
    ranks: int
    hosts: int
    """0: not stated."""
    device: str
    """As the driver calls it; empty: not stated."""
    rows: tuple[tuple[int, float], ...]
    """Bytes and seconds."""


def read_nccl_tests(paths: Sequence[Path], ranks: int | None = None) -> list[Printed]:
    """Read printed tests.

    Args:
        paths: one file a test.
        ranks: for files that list none.

    Raises:
        BadInput: everything wrong with the files, at once.
    """
    problems: list[Problem] = []
    found = [one for path in paths if (one := _read(path, ranks, problems)) is not None]
    if not paths:
        problems.append(Problem("FILES", "are required: what all_reduce_perf and its like printed"))
    if problems:
        raise BadInput(problems)
    return found


def calibrate_from_nccl_tests(
    paths: Sequence[Path], *, ranks: int | None = None, device: str | None = None, cluster: ClusterSpec | None = None
) -> Calibration:
    """The network part of a profile.

    Args:
        paths: one file a test.
        ranks: for files that list none.
        device: catalogue id; absent: of the name in the files.
        cluster: of the run; absent: one node of the device.

    Raises:
        BadInput: everything wrong with the files; a device that is not known; hosts without a cluster.
    """
    printed = read_nccl_tests(paths, ranks)
    warnings: list[str] = []
    chosen = cluster or _cluster(printed, device, warnings)
    if cluster is None and (several := [p for p in printed if p.hosts > 1]):
        rule = f"is required: {several[0].path} ran on {several[0].hosts} hosts, and the network between them is part"
        raise BadInput(Problem("--scenario", f"{rule} of a cluster"))
    if too_many := [p for p in printed if p.ranks > chosen.num_devices]:
        rule = f"has {too_many[0].ranks} ranks, the cluster {chosen.num_devices} devices"
        raise BadInput(Problem("", rule, file=too_many[0].path))
    store = Store(None, {"source": ", ".join(Path(p.path).name for p in printed)})
    for one in printed:
        for size, seconds in one.rows:
            shape = {"operation": one.operation, "bytes": size, "ranks": one.ranks}
            case = Case("p2p", {"bytes": size}) if one.operation == "send_recv" else Case("collective", shape)
            store.add(Measurement(case, seconds, seconds, seconds, 1))
    return from_tables(store, chosen.device, chosen, warnings)


def _cluster(printed: Sequence[Printed], device: str | None, warnings: list[str]) -> ClusterSpec:
    from windtunnel import catalog
    from windtunnel.calibration.machine import named_device
    from windtunnel.specs.cluster import ClusterRef

    name = next((p.device for p in printed if p.device), "")
    if device is not None:
        sheet = catalog.device(device)
    else:
        fitting = named_device(name) if name else []
        if not fitting:
            rule = "is required: the files name no device" if not name else f"is required: no data sheet of {name}"
            raise BadInput(Problem("--device", rule))
        sheet = fitting[0]
        if len(fitting) > 1:
            warnings.append(f"{name} was taken for {sheet.id}; --device says otherwise")
    most = max(p.ranks for p in printed)
    return catalog.resolve_cluster(ClusterRef(device=sheet, nodes=1, devices_per_node=max(8, most)))


def _read(path: Path, ranks: int | None, problems: list[Problem]) -> Printed | None:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        problems.append(Problem("FILES", f"cannot be read: {error.strerror}", str(path)))
        return None
    hosts: dict[str, int] = {}
    device, named, columns = "", "", []
    rows: list[tuple[int, float, float]] = []
    for number, line in enumerate(lines, 1):
        if found := _RANK.match(line):
            hosts[found[1]] = hosts.get(found[1], 0) + 1
            device = device or found[2].strip()
        elif "Collective test starting" in line and (found := _TEST.search(line)):
            named = found[1]
        elif _HEADER.match(line):
            columns = line.lstrip("#").split()
        elif columns and re.match(r"^\s*\d", line):
            row = _row(line.split(), columns)
            if row is None:
                problems.append(Problem("", "is no row of the header's columns", file=str(path), line=number))
                return None
            if row[0] > 0 and row[1] > 0:
                rows.append(row)
    if not rows:
        problems.append(Problem("", "holds no rows of nccl-tests below a header `# size count type …`", file=str(path)))
        return None
    count = sum(hosts.values()) or (ranks or 0)
    if count < 2:
        problems.append(Problem("--ranks", "is required: the file lists no ranks", file=str(path)))
        return None
    operation = _operation(named, path, rows, count)
    if operation is None:
        rule = "does not say which test it is: name the file after it (all_gather_perf.txt)"
        problems.append(Problem("", rule, file=str(path)))
        return None
    return Printed(str(path), operation, count, len(hosts), device, tuple((size, s) for size, s, _ in rows))


def _row(cells: list[str], columns: list[str]) -> tuple[int, float, float] | None:
    """Bytes, seconds, busbw over algbw (0: too small to tell)."""
    try:
        at = columns.index("time")
        size, micro, algbw, busbw = int(cells[0]), float(cells[at]), float(cells[at + 1]), float(cells[at + 2])
    except (ValueError, IndexError):
        return None
    return size, micro * 1e-6, busbw / algbw if algbw >= 1.0 else 0.0


def _operation(named: str, path: Path, rows: list[tuple[int, float, float]], ranks: int) -> str | None:
    found = _TEST.search(named) or _TEST.search(path.name)
    if found:
        return OPERATIONS[found[1].lower().replace("_", "")]
    ratios = sorted(ratio for *_, ratio in rows if ratio)
    if ranks > 2 and ratios and abs(ratios[len(ratios) // 2] - 2 * (ranks - 1) / ranks) < 0.05:
        return "all_reduce"
    return None
