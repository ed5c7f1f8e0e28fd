"""Profiles of networks from what nccl-tests (and rccl-tests) print: size, time, algbw and busbw of collectives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from windtunnel.calibration.cases import Case
from windtunnel.calibration.nccl_printed import Printed, read_nccl_tests
from windtunnel.calibration.profile import Calibration, from_tables
from windtunnel.calibration.store import Measurement, Store
from windtunnel.errors import BadInput, Problem
from windtunnel.specs.cluster import ClusterSpec


def calibrate_from_nccl_tests(
    paths: Sequence[Path], *, ranks: int | None = None, device: str | None = None, cluster: ClusterSpec | None = None
) -> Calibration:
    """The network part of a profile.

    Args:
        paths: files, each of one test or of several.
        ranks: for files that list none.
        device: catalogue id; absent: of the name in the files.
        cluster: of the run; absent: one node of the device.

    Raises:
        BadInput: everything wrong with the files; a device that is not known; hosts without a cluster.
    """
    printed = read_nccl_tests(paths, ranks)
    warnings = [note for one in printed for note in one.notes]
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
