"""Settings that a scenario leaves open and that usually vary: their plausible alternatives, simulated.

Each becomes a term of the step's interval (`training.uncertainty.band_terms`). Alternatives are those that a run of the
same software on the same devices would plausibly have used: the next heavier recomputation, a narrower format that the
device multiplies, half of the network's ports, mappings next to the one that the planner chose, as far as they fit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from windtunnel.errors import BadInput
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.specs.cluster import ClusterSpec, ScaleOut
from windtunnel.specs.number_formats import multiplies
from windtunnel.specs.plan import Recompute
from windtunnel.specs.scenario import Scenario
from windtunnel.stacks.formats import narrow_formats, trains
from windtunnel.techniques import applied
from windtunnel.training.prepare_step import prepare as prepare_step
from windtunnel.training.simulate_step import memory_of, step_time
from windtunnel.training.stage_costs.pricing_cache import PricingCache
from windtunnel.training.step_setup import PreparedStep
from windtunnel.training.uncertainty.band_terms import BandTerm, term_of

PLAN = "plan"
"""Name of the whole mapping as an assumed setting."""
SUBJECTS = {
    "plan": PLAN,
    "precision": "training.precision",
    "recompute": "plan.recompute",
    "network": "cluster.scale_out",
}
"""What a measured row may leave open (`validation.rows`) → the assumed setting."""
_LEAST_CHANGE = 1e-3
"""Smallest change, as a share of the step, that counts."""
_WORDS = {
    "plan.recompute": "recomputation",
    "training.precision": "the precision",
    "cluster.scale_out": "the network",
    PLAN: "the mapping",
}
AXES = ("tp", "pp", "mbs")
"""Axes of a mapping that are varied; the number of replicas follows."""
POLICIES = ("none", "selective", "full")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another value of one setting."""

    name: str
    """Field of the scenario, or `plan` for the mapping as a whole."""
    value: str
    """Value of the prediction, for people."""
    alternative: str
    """The other value, for people."""
    training: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    cluster: dict[str, Any] = field(default_factory=dict)
    must_fit: bool = False
    """Whether it counts only where it fits in memory."""
    named: bool = False
    """Whether the source names it as what may have run: the interval then holds the step that it gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A prediction whose assumed settings are varied."""

    step: PreparedStep
    scenario: Scenario
    step_time_s: float
    memory_fits: bool
    cache: PricingCache = field(default_factory=PricingCache)
    """Prices that the alternatives share with the step."""


def assumed_terms(of: Predicted, left_open: Collection[str]) -> tuple[BandTerm, ...]:
    """A term for each setting that was left open and moves the step under a plausible alternative.

    Nothing is simulated where none of these settings was left open. Groups of unlike devices, and batches of drawn
    lengths, get no terms.

    Args:
        of: The prediction.
        left_open: Fields that were assumed, as results list them; `plan` stands for the whole mapping, plan.tp,
            plan.pp and plan.mbs are in it where a planner chose them, training.precision=FORMAT where the source names
            that format next to the one that was taken.
    """
    if of.step.groups or of.step.batch is not None:
        return ()
    found: dict[str, list[tuple[Alternative, float]]] = {}
    for other in alternatives(of, left_open):
        made = prepared_with(of.step, of.scenario, other, of.cache)
        if made is None or made.plan.m < made.plan.pp:  # nobody runs a pipeline that never fills
            continue
        change = math.log(step_time(made) / of.step_time_s)
        if abs(change) < _LEAST_CHANGE or (other.must_fit and not memory_of(made).fits):
            continue
        found.setdefault(other.name, []).append((other, change))
    return tuple(_term(name, own) for name, own in found.items())


def prepared_with(x: PreparedStep, scenario: Scenario, other: Alternative, cache: PricingCache) -> PreparedStep | None:
    """The step under an alternative; None where it is not valid."""
    try:
        return prepare_step(
            x.model,
            x.cluster.model_copy(update=other.cluster),
            x.training.model_copy(update=other.training),
            scenario.plan.model_copy(update=other.plan),
            applied(scenario.techniques),
            cache=cache,
        )
    except (BadInput, KeyError):
        return None


def _term(name: str, found: list[tuple[Alternative, float]]) -> BandTerm:
    farthest, change = max(found, key=lambda item: abs(item[1]))
    share = math.expm1(change)
    effect = f"{'adds' if share > 0 else 'takes'} {abs(share):.1%}{'' if share > 0 else ' off'}".replace("%", " %")
    text = f"{_WORDS[name]} was assumed: {farthest.alternative} instead of {farthest.value} {effect}"
    term = term_of(name, [c for _, c in found], text)
    named = [c for other, c in found if other.named]
    return replace(term, low_log=min([term.low_log, *named]), high_log=max([term.high_log, *named]))


def alternatives(of: Predicted, left_open: Collection[str]) -> Iterator[Alternative]:
    """Plausible alternatives of the settings that were left open."""
    mapped = [axis for axis in AXES if PLAN in left_open or f"{PLAN}.{axis}" in left_open]
    yield from mappings(of, mapped)
    if PLAN in left_open or "plan.recompute" in left_open:
        yield from recomputations(of, mapped=bool(mapped))
    if "training.precision" in left_open:
        named = [name.partition("=")[2] for name in sorted(left_open) if name.startswith("training.precision=")]
        yield from precisions(of.step, named)
    if any(name.startswith("cluster.scale_out") for name in left_open) and of.step.cluster.nodes > 1:
        yield from networks(of.step.cluster)


def recomputations(of: Predicted, *, mapped: bool) -> Iterator[Alternative]:
    """The next heavier policy; all heavier ones where the step as predicted does not fit.

    Recomputation makes room, so that nobody takes much more of it than memory asks for.

    Args:
        of: The prediction.
        mapped: Whether the mapping was left open, so that recomputation was chosen with it.
    """
    now = of.step.plan.recompute.policy
    if now not in POLICIES:
        return
    heavier = POLICIES[POLICIES.index(now) + 1 :]
    for policy in heavier[:1] if of.memory_fits else heavier:
        yield Alternative(
            name=PLAN if mapped else "plan.recompute",
            value=f"recompute {now}" if mapped else now,
            alternative=f"recompute {policy}" if mapped else policy,
            plan={"recompute": Recompute.model_validate({"policy": policy})},
        )


def precisions(x: PreparedStep, named: Sequence[str] = ()) -> Iterator[Alternative]:
    """The formats that the source names, as far as the device multiplies them; without any, fp8 next to bf16.

    fp8 counts where the device has units for it and the software trains in it.
    """
    now, peaks = x.training.precision, x.cluster.device.peak_flop_per_s
    for other in named:
        if other != now and multiplies(other, {str(name): rate for name, rate in peaks.items()}):
            yield Alternative(
                name="training.precision", value=now, alternative=other, training={"precision": other}, named=True
            )
    if named:
        return
    known = "fp8" in (narrow_formats(x.training.framework) or {})
    if now == "bf16" and "fp8" in peaks and known and trains(x.training.framework, "fp8", x.training.framework_version):
        yield Alternative(name="training.precision", value=now, alternative="fp8", training={"precision": "fp8"})


def networks(cluster: ClusterSpec) -> Iterator[Alternative]:
    """Half the ports of a node, or its one port at half the rate; none where the fabric is given link by link."""
    out = cluster.scale_out
    if out.fabric is not None:
        return
    half = (
        out.model_copy(update={"nics_per_node": out.nics_per_node // 2})
        if out.nics_per_node > 1
        else out.model_copy(update={"nic_bytes_per_s": out.nic_bytes_per_s / 2})
    )
    yield Alternative(
        name="cluster.scale_out", value=ports_text(out), alternative=ports_text(half), cluster={"scale_out": half}
    )


def ports_text(out: ScaleOut) -> str:
    """`8 x 400 Gb/s`."""
    return f"{out.nics_per_node} x {out.nic_bytes_per_s * 8e-9:g} Gb/s"


def mappings(of: Predicted, axes: Sequence[str]) -> Iterator[Alternative]:
    """Mappings next to the one of the prediction that fit: each of the axes doubled or halved."""
    for axis, value, other, update in neighbours(of.step.plan, axes):
        yield Alternative(name=PLAN, value=f"{axis} {value}", alternative=f"{axis} {other}", plan=update, must_fit=True)


def neighbours(plan: ResolvedPlan, axes: Sequence[str]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Axis, size, other size and the fields of a plan to replace, for each of the axes doubled and halved."""
    for axis in axes:
        size = getattr(plan, axis)
        for other in (2 * size, size // 2):
            if other < 1:
                continue
            update: dict[str, Any] = {axis: other}
            if axis != "mbs":
                update |= {"dp": "auto"}
            if axis == "pp":
                update |= {"vpp": 1, "schedule": None, "stage_layers": None}
            yield axis, str(size), str(other), update
