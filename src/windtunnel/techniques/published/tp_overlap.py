"""What `tp-overlap.yaml` changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.program.segment import COMM, COMPUTE, Launch, Segment
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.scenario import Scenario

RINGS: dict[str, frozenset[str]] = {
    "ring": frozenset(("all_gather", "reduce_scatter")),
    "userbuffers": frozenset(("all_gather",)),
    "chunked": frozenset(),
}
USERBUFFER_SMS = 16
"""SMs of a bulk or chunked collective in Transformer Engine unless a layer's configuration says otherwise (2 to 32)."""
SIMPLE = 2
"""Index of the protocol whose kernel start a whole collective pays (`NetworkCoefficients.base_s`)."""

_STREAMING = 0.7
"""Share of the memory bandwidth that the late sum reaches (the default of `memory_fraction`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How collectives are cut on one cluster. Seconds; SM shares from 0 to 1."""

    ring: frozenset[str]
    """Operations that travel as a ring of messages; the others are chunked."""
    chunks: int
    pipeline: bool
    bulk: bool
    collective_start_s: float
    message_start_s: float
    ring_sm: float
    chunk_sm: float | None
    """Share of a chunked or bulk collective; None leaves what it has."""
    sum_bytes_per_s: float
    """Rate of the pass that adds the parts of a pipelined scatter; 0 where they are added as they arrive."""

    @staticmethod
    def of(cluster: ClusterSpec, knobs: dict[str, Any]) -> Cut:
        """From knobs; starts from the network's own coefficients."""
        network = NetworkCoefficients.for_cluster(cluster)
        given = knobs["comm_sms"]
        one = 1.0 / cluster.device.num_sms if network.up.channels else 0.0  # links with engines of their own take none
        share = None if given is None else float(given) / cluster.device.num_sms
        chunk = share
        if share is None and knobs["method"] == "userbuffers":
            chunk = USERBUFFER_SMS / cluster.device.num_sms
        return Cut(
            ring=RINGS[knobs["method"]],
            chunks=int(knobs["chunks"]),
            pipeline=bool(knobs["pipeline"]),
            bulk=bool(knobs["bulk"]),
            collective_start_s=network.base_s[SIMPLE],
            message_start_s=network.p2p_base_s,
            ring_sm=one if share is None else share,
            chunk_sm=chunk,
            sum_bytes_per_s=_STREAMING * cluster.device.memory_bytes_per_s if knobs["late_sum"] else 0.0,
        )

    def is_ring(self, comm: Launch) -> bool:
        """All-reduces have no ring form with a free first (or last) block: they are chunked."""
        return comm.operation in self.ring

    def gemm_pieces(self, comm: Launch) -> int:
        """Row blocks of the GEMM beside a collective: one per rank in a ring, else `chunks`."""
        return max(int(comm.ranks), 2) if self.is_ring(comm) else self.chunks

    def transfer(self, comm: Launch) -> Launch:
        """One transfer of a cut collective. A ring needs one transfer less than blocks: each rank owns a block."""
        ring = self.is_ring(comm)
        count = self.gemm_pieces(comm) - 1 if ring else self.chunks
        moving = max(comm.alone_s - self.collective_start_s, 0.0) / count
        share = self.ring_sm if ring else self.chunk_sm
        return replace(
            _scaled(comm, count),
            alone_s=moving + (self.message_start_s if ring else self.collective_start_s),
            sm=comm.sm if share is None else share,
        )

    def late_sum(self, comm: Launch) -> Launch | None:
        """The pass over the parts of all ranks that ends a pipelined scatter without additions on the way."""
        if not self.sum_bytes_per_s or comm.operation != "reduce_scatter":
            return None
        parts = (comm.up_bytes + comm.out_bytes) * comm.ranks / (comm.ranks - 1.0)  # of all ranks, own one included
        moved = parts * (1.0 + 1.0 / comm.ranks)
        return Launch(
            name=f"{comm.name}_sum",
            tag="tp",
            stream=COMPUTE,
            alone_s=moved / self.sum_bytes_per_s,
            after=[],
            sm=1.0,
            hbm_bytes=moved,
            module=comm.module,
            phase=comm.phase,
            kind="memory_bound",
        )

    def whole(self, comm: Launch) -> Launch:
        """A collective that stays in one piece."""
        return comm if self.chunk_sm is None else replace(comm, sm=self.chunk_sm)


def _scaled(launch: Launch, pieces: int) -> Launch:
    """One of equal pieces: work divided, one launch each."""
    return replace(
        launch,
        alone_s=launch.alone_s / pieces,
        hbm_bytes=launch.hbm_bytes / pieces,
        up_bytes=launch.up_bytes / pieces,
        out_bytes=launch.out_bytes / pieces,
        flop=launch.flop / pieces,
    )


def gemm_piece(gemm: Launch, pieces: int) -> Launch:
    """One row block of a GEMM, priced as the smaller product that it is."""
    part = _scaled(gemm, pieces)
    return part if gemm.piece_s is None else replace(part, alone_s=gemm.piece_s(pieces))


class Rewriter:
    """Copies a segment launch by launch; patterns replace several at once."""

    def __init__(self, segment: Segment, cut: Cut) -> None:
        self.old, self.cut = segment.launches, cut
        self.new = Segment(segment.name, segment.direction, [])
        self.ends: dict[int, list[int]] = {}
        """Old index → new launches whose end stands for its end."""

    def run(self) -> Segment:
        """The rewritten segment."""
        at = 0
        while at < len(self.old):
            used = self._column_backward(at) or self._gather_into_gemm(at) or self._gemm_into_scatter(at)
            at += used or self._keep(at)
        return self.new

    def _at(self, index: int) -> Launch | None:
        return self.old[index] if index < len(self.old) else None

    def _before(self, index: int, but: tuple[int, ...] = ()) -> list[int]:
        """New launches that an old one waits for."""
        return sorted({j for i in self.old[index].after if i not in but for j in self.ends[i]})

    def _put(self, launch: Launch, after: list[int]) -> int:
        return self.new.append(launch.following(sorted(set(after))))

    def _keep(self, at: int) -> int:
        self.ends[at] = [self._put(self.old[at], self._before(at))]
        return 1

    def _gather_into_gemm(self, at: int) -> int:
        comm, gemm = self.old[at], self._at(at + 1)
        if not self.cut.pipeline or gemm is None or not _feeds(comm, gemm):
            return 0
        blocks, transfer = self.cut.gemm_pieces(comm), self.cut.transfer(comm)
        block = gemm_piece(gemm, blocks)
        ready = self._before(at)
        other = self._before(at + 1, but=(at,))
        arrived: list[int] = []
        for i in range(blocks):
            if i or not self.cut.is_ring(comm):  # a ring's first block is the rank's own
                arrived = [self._put(transfer, ready if not arrived else arrived)]
            last = self._put(block, [*arrived, *(ready if not i else []), *other])
        self.ends[at], self.ends[at + 1] = arrived, [last]
        return 2

    def _gemm_into_scatter(self, at: int) -> int:
        gemm, comm = self.old[at], self._at(at + 1)
        if not self.cut.pipeline or comm is None or not _drains(gemm, comm):
            return 0
        self._pipelined_scatter(at, at + 1)
        return 2

    def _pipelined_scatter(self, gemm_at: int, comm_at: int) -> None:
        comm = self.old[comm_at]
        blocks, transfer = self.cut.gemm_pieces(comm), self.cut.transfer(comm)
        block = gemm_piece(self.old[gemm_at], blocks)
        ready = self._before(gemm_at)
        sent: list[int] = []
        for i in range(blocks):
            last = self._put(block, ready)
            if i < blocks - 1 or not self.cut.is_ring(comm):  # a ring's last block is the rank's own
                sent = [self._put(transfer, [last, *sent])]
        done = [last, *sent]
        if (late := self.cut.late_sum(comm)) is not None:
            done = [self._put(late, done)]
        self.ends[gemm_at], self.ends[comm_at] = [last], done

    def _column_backward(self, at: int) -> int:
        """(data gradient, weight gradient?, gather for the weight gradient?, reduction of the data gradient?)."""
        data = self.old[at]
        if data.phase != "D" or not data.splittable:
            return 0
        weight_at = at + self._is(at + 1, lambda x: x.phase == "W" and x.name == data.name)
        gather_at = weight_at + self._is(weight_at + 1, lambda x: x.name == f"tp_regather_{data.name}")
        reduce_at = gather_at + self._is(
            gather_at + 1, lambda x: x.beside == data.name and x.name.startswith("tp_gather_")
        )
        weight, gather, reduce = weight_at > at, gather_at > weight_at, reduce_at > gather_at
        if not (gather or reduce):
            return 0
        cut, ready = self.cut, self._before(at)
        if gather and cut.bulk:
            self.ends[gather_at] = [self._put(cut.whole(self.old[gather_at]), ready)]
        if reduce and cut.pipeline and not (cut.bulk and weight):
            self._pipelined_scatter(at, reduce_at)
        else:
            self.ends[at] = [self._put(data, ready)]
            if reduce and (cut.bulk or not weight):
                self.ends[reduce_at] = [self._put(cut.whole(self.old[reduce_at]), self.ends[at])]
        if gather and not cut.bulk:
            self.ends[gather_at] = [self._put(self.old[gather_at], self.ends[at])]
        if weight:
            gathered = self.ends[gather_at] if gather else []
            self.ends[weight_at] = [self._put(self.old[weight_at], [*self.ends[at], *gathered])]
        if reduce and reduce_at not in self.ends:
            self.ends[reduce_at] = [self._put(self.old[reduce_at], self.ends[weight_at])]
        return reduce_at - at + 1

    def _is(self, index: int, test: Callable[[Launch], bool]) -> int:
        launch = self._at(index)
        return int(launch is not None and test(launch))


def _feeds(comm: Launch, gemm: Launch) -> bool:
    """Gather before a column GEMM (forward, recomputed), or before a row GEMM's data gradient."""
    if comm.tag != "tp" or comm.stream != COMM or not gemm.splittable or comm.beside != gemm.name:
        return False
    return comm.name.startswith("tp_gather_" if gemm.phase in "FR" else "tp_reduce_")


def _drains(gemm: Launch, comm: Launch) -> bool:
    """Row GEMM (forward, recomputed) before its reduction."""
    return gemm.splittable and gemm.phase in "FR" and comm.name == f"tp_reduce_{gemm.name}"


def segment(segment: Segment, cluster: ClusterSpec, knobs: dict[str, Any]) -> Segment:
    return Rewriter(segment, Cut.of(cluster, knobs)).run()


def applies_to(scenario: Scenario) -> str | None:
    return None if scenario.plan.tp > 1 else "there is no tensor parallelism to overlap"
