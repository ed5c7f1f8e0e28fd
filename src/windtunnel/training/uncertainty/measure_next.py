"""The one measurement that would narrow the interval of a step time most, and by how much.

Each candidate is an interval that the same code makes of the same run with that measurement: with the coverage that a
profile of it would have (`profile_coverage`), or without the term of a setting that would then be stated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from windtunnel.specs.device import MeasuredValue, Profile
from windtunnel.training.results.records import Interval, NextMeasurement
from windtunnel.training.uncertainty.band_terms import BandTerm, with_terms
from windtunnel.training.uncertainty.comparable_runs import describe
from windtunnel.training.uncertainty.profile_coverage import Coverage, coverage_of
from windtunnel.training.uncertainty.step_time_interval import interval_of

if TYPE_CHECKING:
    from windtunnel.parallel.resolve import ResolvedPlan
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.model import ModelSpec
    from windtunnel.specs.workload import TrainingSpec

WIDE = math.log(1.1)
"""Half-width of an interval, as a logarithm, from which on a measurement is proposed: 10 % to either side."""
_WORTH = 0.95
"""A measurement is proposed where it leaves less than this share of the half-width."""
_RATE_ERROR = 0.03
"""Standard error of a rate that `calibrate` measured; what the catalogue takes as usual for measured coefficients
(`cost.provenance`)."""
_STEP_ERROR = 0.04
"""Standard error of a step time after a fit to one logged step: runs of one job lie 1 to 3 % apart, and the model
leaves 4 % over after a fit (`calibration.logs_fit.ROW_SIGMA`, docs/accuracy/training.md)."""
_KERNELS = (
    "gemm_fraction",
    "attention_fraction",
    "memory_fraction",
    "optimizer_fraction",
    "host_kernel_s",
    "scan_fraction",
)
"""Coefficients that `windtunnel calibrate` measures on one device."""
_LINKS = ("efficiency", "hop_scale", "base_scale")
"""Entries of a profile's network that a run of nccl-tests measures."""
_CALIBRATES = ("gpu", "cpu")
"""Kinds of devices that `windtunnel calibrate` measures."""
_MACHINE = "-o machine.yaml, then `cluster.device: machine.yaml`"


_STATED = {
    "plan": "--set plan.tp=TP --set plan.pp=PP --set plan.mbs=MBS",
    "plan.recompute": "--set plan.recompute=POLICY",
    "training.precision": "--set training.precision=FORMAT",
    "cluster.scale_out": "--set 'cluster.scale_out=PORTS x LINK'",
}
"""Assumed setting → options that state it; what is in capitals is for the user to fill in."""


class Member(Protocol):
    """The parts of a prepared step that the interval depends on."""

    @property
    def model(self) -> ModelSpec:
        """What is trained."""

    @property
    def cluster(self) -> ClusterSpec:
        """Devices of the step, or of one group of them."""

    @property
    def training(self) -> TrainingSpec:
        """The workload."""

    @property
    def plan(self) -> ResolvedPlan:
        """The plan with nothing left open."""


class Timed(Protocol):
    """The figures of a result that the interval depends on."""

    @property
    def step_time_s(self) -> float:
        """Seconds of the step."""

    @property
    def breakdown(self) -> dict[str, float]:
        """Class of time → seconds."""


def half_width(band: Interval) -> float:
    """Half the logarithm of an interval's upper over its lower end."""
    return 0.5 * math.log(band.high / band.low)


def measure_next(
    members: Sequence[Member], result: Timed, band: Interval, terms: Sequence[BandTerm]
) -> NextMeasurement | None:
    """The measurement or statement that would narrow a band most; None for narrow bands, and where nothing helps.

    Args:
        members: The step, or its groups of unlike devices.
        result: Seconds of the step by class of time.
        band: The band, with terms.
        terms: Terms of assumed settings in the interval.
    """
    now = half_width(band)
    if not now > WIDE:
        return None

    def after(known: Mapping[str, Coverage] | None, kept: Sequence[BandTerm]) -> float:
        """Half-width of the widest member's interval under other coverages and terms."""
        found = []
        for one in members:
            profile = one.cluster.device.profile
            covered = coverage_of(profile, result.breakdown) if known is None else known[one.cluster.device.id]
            subject = describe(one.training, one.cluster, one.model, one.plan)
            plain = interval_of(subject, result.step_time_s, covered)
            found.append(half_width(with_terms(plain, result.step_time_s, kept)))
        return max(found)

    best: NextMeasurement | None = None
    for kind, what, command, known, kept in _candidates(members, result, terms):
        width = after(known, kept)
        if width < _WORTH * (now if best is None else best.half_width_after):
            best = NextMeasurement(kind=kind, what=what, command=command, half_width=now, half_width_after=width)
    return best


_Candidate = tuple[str, str, str, Mapping[str, Coverage] | None, Sequence[BandTerm]]
"""Kind, what, command, coverages by device (None: as they are), terms that stay."""


def _candidates(members: Sequence[Member], result: Timed, terms: Sequence[BandTerm]) -> Iterator[_Candidate]:
    """What could be measured or stated, the cheapest first."""
    for term in terms:
        rest = [t for t in terms if t is not term]
        stated = _STATED.get(term.name, f"{term.name}=VALUE")
        yield "setting", f"Stating {term.name} in the scenario", f"windtunnel train SCENARIO {stated}", None, rest
    kinds = {one.cluster.device.kind for one in members}
    if kinds <= {*_CALIBRATES}:
        flag = "cpu" if kinds == {"cpu"} else "gpu"
        what = "A table of matrix products and kernels on one device"
        yield "kernels", what, f"windtunnel calibrate --on {flag} {_MACHINE}", _with(members, result, _KERNELS), terms
    if any(one.cluster.num_devices > 1 for one in members) and kinds <= {"gpu"}:
        command = f"windtunnel calibrate all_reduce.txt --from nccl-tests --scenario SCENARIO {_MACHINE}"
        kept = [t for t in terms if not t.name.startswith("cluster.")]  # it shows the network that there is
        yield "collective", "One all-reduce on the cluster", command, _with(members, result, (), _LINKS), kept
    across = any(one.cluster.nodes > 1 for one in members)
    what = "One measured step on one node" if across else "One measured step"
    command = f"windtunnel calibrate --from-logs steps.csv --scenario SCENARIO {_MACHINE}"
    share = _one_node_share(result.breakdown) if across else 1.0
    stepped = {one.cluster.device.id: Coverage(share, _STEP_ERROR * share) for one in members}
    yield "step", what, command, stepped, terms


def _with(
    members: Sequence[Member], result: Timed, rates: Sequence[str], links: Sequence[str] = ()
) -> dict[str, Coverage]:
    """Device → coverage by its profile with more rates measured."""

    def measured(known: Mapping[str, MeasuredValue], names: Sequence[str]) -> dict[str, MeasuredValue]:
        new = MeasuredValue(value=1.0, relative_error=_RATE_ERROR)
        lost = {n for n in known for name in names if n.partition(".")[0] == name}
        return {**{n: v for n, v in known.items() if n not in lost}, **dict.fromkeys(names, new)}

    out = {}
    for one in members:
        profile = one.cluster.device.profile or Profile()
        own = Profile(coefficients=measured(profile.coefficients, rates), network=measured(profile.network, links))
        out[one.cluster.device.id] = coverage_of(own, result.breakdown)
    return out


def _one_node_share(breakdown: Mapping[str, float]) -> float:
    """Share of a step that a step on one node shows: all but traffic that usually leaves it."""
    outside = sum(v for name, v in breakdown.items() if name.startswith("exposed") and name != "exposed tp")
    return 1.0 - outside / sum(breakdown.values())
