"""Properties by which runs are compared, and residuals of the measured ones (`catalog/residuals/training.json`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from windtunnel.stacks.stack_files import lineage

if TYPE_CHECKING:
    from windtunnel.parallel.resolve import ResolvedPlan
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.model import ModelSpec
    from windtunnel.specs.workload import TrainingSpec

WAYS = ("fold", "family", "device", "software")
"""Ways in which the row of a residual was left out of the fit: with its (model, cluster) fold; with its family, a site
and its software; with all rows of its device; with all rows of its software."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The properties of a run that comparisons use."""

    software: str
    root: str
    """Software that it inherits coefficients from; itself where it inherits none."""
    device: str
    generation: str
    vendor: str
    mixture: bool
    """Whether the model has experts."""
    signature: str
    """The (model, cluster) group: dimensions of the model, device and number of devices."""
    devices: int
    across: bool
    """Whether its communication leaves the node."""
    precision: str
    seq_len: int
    hidden: int
    mbs: int
    plan: str
    """Axes, micro-batch, batch and recomputation as words; pairs of plans differ in these."""

    def columns(self) -> list[Any]:
        """Values in the order of `COLUMNS`, as the residual file has them."""
        return [getattr(self, name) for name in COLUMNS]


COLUMNS = (
    "software",
    "root",
    "device",
    "generation",
    "vendor",
    "mixture",
    "signature",
    "devices",
    "across",
    "precision",
    "seq_len",
    "hidden",
    "mbs",
    "plan",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """Errors of predicting one measured configuration after rows like it were left out of the fit.

    Errors are predicted step time over measured, minus one; None where that way of leaving out was not run.
    """

    subject: Subject
    family: str
    site: str
    """Families of one site leave the record together."""
    ids: tuple[str, ...]
    """Measured rows; more than one are repeats, and errors are against their median."""
    measurements: float = 1.0
    """How many measurements it stands for: less than one where several values were composed from one."""
    assumed: tuple[float, float] = (0.0, 0.0)
    """What assumed settings add to the interval of the step time towards shorter and longer steps, in logarithms."""
    errors: tuple[float | None, ...]
    """One a way of leaving out, in the order of `WAYS`."""
    scaled: float | None = None
    """Its error with its family left out, about the centre and over the standard error that the other families give
    (`hierarchical_errors`)."""

    def error(self, way: str) -> float | None:
        """Error under one way of leaving out, an entry of `WAYS`."""
        return self.errors[WAYS.index(way)]


def signature(model: ModelSpec, cluster: ClusterSpec) -> str:
    """Name of a (model, cluster) group: dimensions of the model, device and number of devices."""
    return (
        f"{model.hidden_size}x{model.num_hidden_layers}x{model.vocab_size}x{model.num_experts}"
        f"|{cluster.device.id}x{cluster.num_devices}"
    )


def describe(training: TrainingSpec, cluster: ClusterSpec, model: ModelSpec, plan: ResolvedPlan) -> Subject:
    """The properties of a run that comparisons use."""
    device = cluster.device
    axes = {"tp": plan.tp, "pp": plan.pp, "vpp": plan.vpp, "cp": plan.cp, "ep": plan.ep, "dp": plan.dp, "mbs": plan.mbs}
    words = [f"{name}{value}" for name, value in axes.items() if value > 1 or name == "mbs"]
    words += [f"gbs{training.global_batch}", f"zero{plan.zero}", plan.recompute.policy]
    return Subject(
        software=training.framework,
        root=lineage(training.framework)[-1],
        device=device.id,
        generation=device.generation,
        vendor=device.vendor,
        mixture=bool(model.num_experts),
        signature=signature(model, cluster),
        devices=cluster.num_devices,
        across=cluster.nodes > 1,
        precision=training.precision,
        seq_len=training.seq_len,
        hidden=model.hidden_size,
        mbs=plan.mbs,
        plan=" ".join(words),
    )


@cache
def _file() -> dict[str, Any]:
    path = resources.files("windtunnel") / "catalog/residuals/training.json"
    data: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    wanted = [*COLUMNS, "family", "site", "ids", "measurements", "assumed", *(f"error_{way}" for way in WAYS), "scaled"]
    readable = data.get("columns") == wanted  # a calibration may run over an older file
    return data if readable else {"rows": []}


@cache
def residuals() -> tuple[Residual, ...]:
    """All residuals in the catalogue."""
    return tuple(read_residual(row) for row in _file()["rows"])


@cache
def distances() -> dict[str, float]:
    """Property → distance that a difference in it adds between two runs (see `step_time_interval`)."""
    return dict(_file().get("distances", {}))


@cache
def shipped_variances() -> dict[str, float]:
    """Variances of `hierarchical_errors.VARIANCES`; empty where the residual file has none."""
    return dict(_file().get("variances", {}))


def read_residual(row: list[Any]) -> Residual:
    """Read one line of the residual file."""
    n = len(COLUMNS)
    subject = Subject(**dict(zip(COLUMNS, row[:n], strict=True)))
    family, site, ids, measurements, assumed, *errors = row[n : n + 5 + len(WAYS)]
    scaled = row[n + 5 + len(WAYS)] if len(row) > n + 5 + len(WAYS) else None
    shorter, longer = assumed
    return Residual(
        subject=subject,
        family=family,
        site=site,
        ids=tuple(ids),
        measurements=measurements,
        assumed=(shorter, longer),
        errors=tuple(errors),
        scaled=scaled,
    )


@cache
def known_families() -> frozenset[str]:
    """Families whose rows set coefficients: their sites are part of the record."""
    return frozenset(r.family for r in residuals() if r.error("fold") is not None)
