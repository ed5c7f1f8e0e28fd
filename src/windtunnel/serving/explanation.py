"""Why an iteration of a server takes as long as it does: data-sheet rates and coefficients behind each class of time.

Each rate and each coefficient is moved by 1 % and the instance is priced anew at the run's mean batch. So the shares
follow the cost formulas whatever they are: with an exponent of -0.6 for memory bandwidth, 1 % more of it shortens the
iteration by 0.6 %. An iteration's exponents of seconds, less those of data-sheet rates, add up to about one, because
time has no other source.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windtunnel.cost.serving_provenance import serving_provenance
from windtunnel.scenarios.source import Source
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.device import MeasuredValue, Profile
from windtunnel.versions import RESULT_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windtunnel.serving.deployment import Deployment, Pool
    from windtunnel.serving.results.serving_result import ServingResult

STEP = 0.01
"""Relative change of an input."""
LEAST = 2e-3
"""Exponents below this are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A data-sheet rate or a coefficient, and how an iteration follows it."""

    kind: str
    """`data sheet` or `coefficient`."""
    name: str
    value: float
    unit: str
    source: str
    grade: str
    relative_error: float | None = None
    prior: float | None = None
    exponent: float = 0.0
    """Relative change of the iteration's seconds over that of the input."""
    classes: tuple[str, ...] = ()
    """Classes of time that it moves, the most first."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {name: getattr(self, name) for name in self.__slots__} | {"classes": list(self.classes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationChain:
    """One kind of iteration at the mean batch."""

    kind: str
    seconds: float
    batch: dict[str, float]
    classes: dict[str, float]
    """Class of time → seconds."""
    inputs: tuple[Input, ...]
    """The most important first."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "kind": self.kind,
            "seconds": self.seconds,
            "batch": self.batch,
            "classes": [
                {"class": name, "seconds": s, "share": s / self.seconds, "inputs": self._inputs_of(name)}
                for name, s in self.classes.items()
            ],
            "inputs": [one.to_dict() for one in self.inputs],
        }

    def _inputs_of(self, name: str) -> list[str]:
        return [one.name for one in self.inputs if name in one.classes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingExplanation:
    """A serving prediction with what is behind its iterations."""

    result: ServingResult
    iterations: tuple[IterationChain, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        own = self.result.to_dict()
        kept = ("scenario_name", "ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s", "intervals", "grades", "bound_by")
        return {
            "schema_version": RESULT_SCHEMA,
            **{name: own[name] for name in kept},
            "iterations": [one.to_dict() for one in self.iterations],
            "capacity": own["capacity"],
            "assumed": own["assumed"],
        }


def explain_serving(source: Source, *, overrides: Sequence[str] = ()) -> ServingExplanation:
    """Simulate a deployment and explain its iterations.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: `key=value` settings as `--set` takes them.

    Raises:
        BadInput: everything wrong with the scenario.
        Infeasible: the model does not fit.
    """
    from windtunnel.serving.deployment import prepare
    from windtunnel.serving.simulate import simulate_serving

    result = simulate_serving(source, overrides=tuple(overrides))
    d = prepare(source, overrides=tuple(overrides))
    return ServingExplanation(
        result=result,
        iterations=tuple(
            _chain(d, kind, classes, result.mean_batch[kind]) for kind, classes in result.composition.items()
        ),
    )


def _chain(d: Deployment, kind: str, classes: dict[str, float], batch: dict[str, float]) -> IterationChain:
    pool = next(one for one in d.pools if one.index == batch["pool"])
    base = _parts(d, pool, pool.cluster, batch)[kind]
    found = []
    for one, cluster in _moved(d, pool):
        moved = _parts(d, pool, cluster, batch)[kind]
        change = math.log(sum(moved.values()) / sum(base.values())) / math.log1p(STEP)
        if abs(change) < LEAST:
            continue
        by = {name: abs(moved.get(name, 0.0) - base.get(name, 0.0)) for name in {*base, *moved}}
        most = max(by.values())
        names = sorted((n for n in by if by[n] > 0.1 * most), key=lambda n: -by[n])
        found.append(_with(one, change, tuple(names)))
    found.sort(key=lambda one: -abs(one.exponent))
    return IterationChain(
        kind=kind, seconds=sum(classes.values()), batch=batch, classes=dict(classes), inputs=tuple(found)
    )


def _with(one: Input, exponent: float, classes: tuple[str, ...]) -> Input:
    from dataclasses import replace

    return replace(one, exponent=exponent, classes=classes)


def _parts(d: Deployment, pool: Pool, cluster: ClusterSpec, batch: dict[str, float]) -> dict[str, dict[str, float]]:
    """Kind of iteration → class → seconds of a pool on a cluster, at a batch."""
    from windtunnel.serving.deployment import priced_pool
    from windtunnel.serving.results.time_breakdown import Mean, composition

    mean = Mean(**{name: value for name, value in batch.items() if name != "pool"})
    most = int(pool.iteration.linear.tokens[-1])
    made = priced_pool(d.serving, pool.index, pool.group, cluster, pool.model, pool.instance, d.techniques, most)
    return composition(made.iteration, mean, mixed=pool.limits.mixed)


def _moved(d: Deployment, pool: Pool) -> Iterator[tuple[Input, ClusterSpec]]:
    """Each input, and the cluster with 1 % more of it."""
    device, up = pool.cluster.device, pool.cluster.scale_up

    def on(**changed: Any) -> ClusterSpec:
        return pool.cluster.model_copy(update={"device": device.model_copy(update=changed)})

    yield (
        _sheet("device memory bandwidth", device.memory_bytes_per_s, "B/s", device.sources.get("memory_bytes_per_s")),
        on(memory_bytes_per_s=device.memory_bytes_per_s * (1 + STEP)),
    )
    peaks = device.peak_flop_per_s
    for name, value in peaks.items():
        yield (
            _sheet(f"{name} peak", value, "FLOP/s", device.sources.get("peak_flop_per_s")),
            on(peak_flop_per_s={**peaks, name: value * (1 + STEP)}),
        )
    yield (
        _sheet("scale-up link", up.bytes_per_s, "B/s", up.sources.get("bytes_per_s", up.name or up.id)),
        pool.cluster.model_copy(
            update={"scale_up": up.model_copy(update={"bytes_per_s": up.bytes_per_s * (1 + STEP)})}
        ),
    )
    out = pool.cluster.scale_out
    stated = not any(a[0].startswith("cluster.scale_out") for a in pool.cluster.assumed)
    yield (
        _sheet("scale-out port", out.nic_bytes_per_s, "B/s", f"{out.nics_per_node} ports a node" if stated else None),
        pool.cluster.model_copy(
            update={"scale_out": out.model_copy(update={"nic_bytes_per_s": out.nic_bytes_per_s * (1 + STEP)})}
        ),
    )
    serving = d.serving
    for c in serving_provenance(serving.engine, serving.engine_version, device, streamed=serving.streams).values():
        own = device.profile or Profile()
        entry = MeasuredValue(value=c.value * (1 + STEP))
        profile = own.model_copy(update={"serving": {**own.serving, c.name: entry}})
        unit = "s" if c.name.partition(".")[0].endswith("_s") else ""
        yield (
            Input(
                kind="coefficient", name=c.name, value=c.value, unit=unit, source=c.source, grade=c.grade,
                relative_error=c.relative_error, prior=c.prior,
            ),
            on(profile=profile),
        )  # fmt: skip


def _sheet(name: str, value: float, unit: str, source: str | None) -> Input:
    return Input(
        kind="data sheet", name=name, value=value, unit=unit, source=source or "assumed",
        grade="measured" if source else "assumed",
    )  # fmt: skip
