"""Tensor-parallel collectives cut into chunks that travel beside chunks of the GEMM they feed or drain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.program.segment import COMM, COMPUTE, Launch, Segment
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique


def _segment(segment: Segment, cluster: ClusterSpec, knobs: dict[str, Any]) -> Segment:
    """Rewrite (collective → GEMM) and (GEMM → collective) pairs into chunk pipelines; free the rest of the chain.

    A gather that only the weight gradient needs (`tp_regather`) runs beside the data gradient, and the reduction of a data
    gradient beside the weight gradient, as whole collectives ("bulk" overlap).
    """
    chunks = int(knobs["chunks"])
    floor = float(knobs["chunk_floor_us"]) * 1e-6
    old, out = segment.launches, Segment(segment.name, segment.direction, [])
    end_of: dict[int, list[int]] = {}
    """Old index → new indices whose end stands for it."""

    def ends(indices: list[int]) -> list[int]:
        return sorted({j for i in indices for j in end_of.get(i, [])})

    i = 0
    while i < len(old):
        launch = old[i]
        following = old[i + 1] if i + 1 < len(old) else None
        if _feeds(launch, following):
            assert following is not None
            before = ends(launch.after)
            comm, last = before, []
            for c in range(chunks):
                if c:  # the first chunk is this rank's own shard: no transfer
                    comm = [out.append(_part(launch, chunks - 1, comm, 0.0))]
                last = [out.append(_part(following, chunks, sorted({*comm, *last, *ends(following.after)} if c == 0 else {*comm, *last}), floor))]
            end_of[i] = end_of[i + 1] = last
            i += 2
            continue
        if _drains(launch, following):
            assert following is not None
            last, comm = ends(launch.after), []
            for c in range(chunks):
                last = [out.append(_part(launch, chunks, last, floor))]
                if c < chunks - 1:
                    comm = [out.append(_part(following, chunks - 1, sorted({*last, *comm}), 0.0))]
            end_of[i] = last
            end_of[i + 1] = sorted({*last, *comm})
            i += 2
            continue
        new = replace(launch, after=ends(launch.after))
        if launch.tag == "tp" and launch.name.startswith("tp_regather"):
            # needed by the weight gradient alone: it may start with the data gradient that follows
            end_of[i] = [out.append(new)]
            regather = end_of[i]
            if following is not None and following.phase == "D":
                data = replace(following, after=list(new.after))
                end_of[i + 1] = [out.append(data)]
                if i + 2 < len(old) and old[i + 2].phase == "W":
                    weight = replace(old[i + 2], after=sorted({*end_of[i + 1], *regather}))
                    reduce_at = i + 3
                    if reduce_at < len(old) and old[reduce_at].tag == "tp":
                        reduction = replace(old[reduce_at], after=list(end_of[i + 1]))
                        end_of[reduce_at] = [out.append(reduction)]
                        end_of[i + 2] = [out.append(weight)]
                        end_of[reduce_at] = sorted({*end_of[reduce_at], *end_of[i + 2]})
                        i += 4
                        continue
                    end_of[i + 2] = [out.append(weight)]
                    i += 3
                    continue
                i += 2
                continue
            i += 1
            continue
        end_of[i] = [out.append(new)]
        i += 1
    return out


def _feeds(launch: Launch, following: Launch | None) -> bool:
    return (
        launch.tag == "tp" and launch.stream == COMM and following is not None and following.splittable
        and launch.name.startswith("tp_gather" if following.phase in "FR" else "tp_reduce")
    )  # fmt: skip


def _drains(launch: Launch, following: Launch | None) -> bool:
    return (
        launch.splittable and launch.stream == COMPUTE and following is not None and following.tag == "tp"
        and following.name.startswith("tp_reduce") and launch.phase in "FR"
    )  # fmt: skip


def _part(launch: Launch, parts: int, after: list[int], floor: float) -> Launch:
    """One of `parts` equal pieces; a GEMM piece pays its launch and ramp again (`floor`)."""
    share = 1.0 / max(parts, 1)
    return replace(
        launch, after=list(after), alone_s=launch.alone_s * share + floor, hbm_bytes=launch.hbm_bytes * share,
        up_bytes=launch.up_bytes * share, out_bytes=launch.out_bytes * share, flop=launch.flop * share,
    )  # fmt: skip


def _applies(scenario: Scenario) -> str | None:
    return None if scenario.plan.tp > 1 else "there is no tensor parallelism to overlap"


TECHNIQUE = Technique(
    id="tp-overlap",
    family="overlap-net",
    summary="pipeline tensor-parallel gathers and scatters with the GEMMs beside them, chunk by chunk",
    paper=Paper(
        "Overlap Communication with Dependent Computation via Decomposition in Large Deep Learning Models", 2023,
        "https://doi.org/10.1145/3567955.3567959", "Wang, Shibo and others", "ASPLOS 2023",
    ),
    levels=("segment",),
    knobs={
        "chunks": Knob(4, 2, 32, "pieces of each GEMM"),
        "chunk_floor_us": Knob(5.0, 0.0, 100.0, "launch and ramp of each further piece, microseconds"),
    },
    edits=(("segment", "tp"),),
    applies_to=_applies,
    segment=_segment,
    saves="scale-up",
)  # fmt: skip

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
