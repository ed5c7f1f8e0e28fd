"""Strided objects and a halo, piece by piece and packed."""

from __future__ import annotations

from windtunnel.network.packing import Packer, Strided
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def packer(values: Values, ranks: int = 1) -> Packer:
    """The machine, with so many ranks on a port."""
    return Packer(
        memory_bytes_per_s=fixed("memory_bytes_per_s"),
        host_bytes_per_s=fixed("host_bytes_per_s"),
        wire_bytes_per_s=fixed("port_bytes_per_s") / ranks,
        copy_s=values["copy_us"] * 1e-6,
    )


def objects(values: Values) -> list[Strided]:
    """Those of the microbenchmarks."""
    return [Strided(size / values["piece_bytes"], values["piece_bytes"]) for size in fixed("objects")]


def pack(values: Values) -> float:
    """Largest gain of one kernel."""
    of = packer(values)
    return max(of.copied_s(one) / of.packed_s(one) for one in objects(values))


def send(values: Values) -> float:
    """Largest gain of a message."""
    of = packer(values)
    return max(of.sent_s(one)["copied"] / of.best(one)[1] for one in objects(values))


def halo(values: Values) -> float:
    """Faces along each axis: rows of a few points, of all, and whole planes row by row; edges and corners are small."""
    of, n, r, size = packer(values, fixed("ranks_per_port")), values["side"], fixed("radius"), fixed("element_bytes")
    faces = [Strided(n * n, r * size), Strided(n * r, n * size), Strided(n * r, n * size)]
    small = fixed("neighbours") - 2 * len(faces)
    plain = 2.0 * sum(of.sent_s(one)["copied"] for one in faces)
    packed = 2.0 * sum(of.best(one)[1] for one in faces)
    edge = Strided(n, r * r * size)
    return float((plain + small * of.sent_s(edge)["copied"]) / (packed + small * of.best(edge)[1]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"pack": pack, "send": send, "halo": halo}
