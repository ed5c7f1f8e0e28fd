"""Hypotheses for the gap between a measured and a predicted step: settings left open, and errors of coefficients.

Every candidate is simulated. A setting counts as open when the scenario does not state it; a coefficient may move by
its standard error (or what is usual for its confidence).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from windtunnel.cost.coefficients import coefficients
from windtunnel.cost.provenance import Provenance, provenance
from windtunnel.errors import BadInput
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.plan import Overlap, Recompute
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import ExpertLoad, Framework
from windtunnel.stacks.stack_files import lineage
from windtunnel.techniques import applied
from windtunnel.training.explain.assumed_fields import AXES, PLAN, POLICIES, neighbours, ports_text
from windtunnel.training.explain.time_chain import Chain
from windtunnel.training.prepare_step import prepare as prepare_step
from windtunnel.training.simulate_step import memory_of, step_time
from windtunnel.training.stage_costs.pricing_cache import PricingCache
from windtunnel.training.step_setup import PreparedStep

PLAUSIBLE_SIGMA = 2.0
"""Largest deviation of a coefficient, in standard errors, that counts as plausible."""
_BOARD = ("board_j_per_flop", "reference_limit")
"""Coefficients that convert a fraction from the generation's reference board to another; there they cancel."""
_LEAST_CHANGE = 1e-3
"""Smallest change, as a share of the step, for which a candidate is listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One alternative to the prediction's inputs, and the step under it."""

    kind: str
    """assumption | coefficient."""
    name: str
    """Scenario field or coefficient."""
    value: str
    """Value that the prediction uses."""
    alternative: str
    step_time_s: float
    change_s: float
    sigmas: float | None
    """Coefficients: distance of the alternative in standard errors."""
    grade: str
    note: str = ""
    stated: bool = False
    """Whether the scenario states the value, so that the run would have left it."""
    made: tuple[PreparedStep, Scenario] | None = field(default=None, repr=False, compare=False)
    """Assumptions: the step under the alternative."""

    @property
    def plausible(self) -> bool:
        """Whether the alternative is plausible: a setting that fits in memory, a coefficient within two errors."""
        return not self.note if self.sigmas is None else abs(self.sigmas) <= PLAUSIBLE_SIGMA + 1e-9

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "kind": self.kind,
            "name": self.name,
            "value": self.value,
            "alternative": self.alternative,
            "step_time_s": self.step_time_s,
            "change_s": self.change_s,
            "sigmas": self.sigmas,
            "grade": self.grade,
            "plausible": self.plausible,
            "note": self.note,
            "stated": self.stated,
        }


@dataclass(frozen=True, slots=True)
class _Change:
    """Fields to replace; `value` and `alternative` are texts for people."""

    name: str
    value: str
    alternative: str
    training: dict[str, Any] | None = None
    plan: dict[str, Any] | None = None
    cluster: dict[str, Any] | None = None
    stated: bool = False


def open_settings(prepared: PreparedStep, scenario: Scenario, chosen_by_planner: Sequence[str] = ()) -> list[Candidate]:
    """Simulate every alternative to the settings that the scenario leaves open; skip invalid and ineffective ones.

    Args:
        prepared: The step as predicted.
        scenario: The scenario that it is of.
        chosen_by_planner: What a planner chose: `plan`, or axes such as plan.tp.
    """
    mapped = [axis for axis in AXES if {PLAN, f"{PLAN}.{axis}"} & {*chosen_by_planner}]
    mappings = [_Change(f"{PLAN}.{a}", v, other, plan=p) for a, v, other, p in neighbours(prepared.plan, mapped)]
    return _simulated(prepared, scenario, [*_changes(prepared, scenario), *mappings])


def stated_settings(prepared: PreparedStep, scenario: Scenario) -> list[Candidate]:
    """Simulate other values of what a scenario states, where runs often differ from what is written of them."""
    return _simulated(prepared, scenario, _stated_changes(prepared, scenario))


def _simulated(prepared: PreparedStep, scenario: Scenario, changes: Iterable[_Change]) -> list[Candidate]:
    """The step under each change; invalid and ineffective ones are left out."""
    base = step_time(prepared)
    chosen = applied(scenario.techniques)
    cache = PricingCache()
    out: list[Candidate] = []
    for change in changes:
        plan = scenario.plan.model_copy(update=change.plan or {})
        try:
            other = prepare_step(
                prepared.model,
                prepared.cluster.model_copy(update=change.cluster or {}),
                prepared.training.model_copy(update=change.training or {}),
                plan,
                chosen,
                cache=cache,
            )
        except (BadInput, KeyError):
            continue
        seconds = step_time(other)
        if abs(seconds - base) < _LEAST_CHANGE * base:
            continue
        if any(c.name == change.name and abs(c.step_time_s - seconds) < 1e-6 * base for c in out):
            continue  # the same in effect
        note = "" if memory_of(other).fits else "would not fit in memory"
        made = (other, scenario.model_copy(update={"plan": plan}))
        out.append(
            Candidate(
                kind="assumption",
                name=change.name,
                value=change.value,
                alternative=change.alternative,
                step_time_s=seconds,
                change_s=seconds - base,
                sigmas=None,
                grade="assumed",
                note=note,
                stated=change.stated,
                made=made,
            )
        )
    return out


def _stated_changes(prepared: PreparedStep, scenario: Scenario) -> Iterator[_Change]:
    """Other values of the recomputation, the format, the software label and the network that a scenario states."""
    training, plan = prepared.training, prepared.plan
    given = scenario.training.model_fields_set if scenario.training else frozenset()
    if "recompute" in scenario.plan.model_fields_set and plan.recompute.policy in POLICIES:
        yield from _recomputations(plan.recompute.policy, stated=True)
    if "precision" in given:
        for other in ("bf16", "fp8"):
            if other != training.precision and other in prepared.cluster.device.peak_flop_per_s:
                yield _Change(
                    "training.precision", training.precision, other, training={"precision": other}, stated=True
                )
    if "framework" in given:
        for name in _siblings(training.framework):
            update = {"framework": name}
            yield _Change("training.framework", training.framework, name, training=update, stated=True)
    if not any(item.startswith("cluster.scale_out") for item, _, _ in prepared.cluster.assumed):
        yield from _networks(prepared.cluster, stated=True)


def _siblings(framework: str) -> tuple[str, ...]:
    """Other labels of the same engine: software that inherits from the same root, and the root itself."""
    root = lineage(framework)[-1]
    return tuple(name for name in get_args(Framework) if name != framework and lineage(name)[-1] == root)


def _recomputations(now: str, *, stated: bool = False) -> Iterator[_Change]:
    for policy in POLICIES:
        if policy != now:
            value = Recompute.model_validate({"policy": policy})
            yield _Change("plan.recompute", now, policy, plan={"recompute": value}, stated=stated)


def _networks(cluster: ClusterSpec, *, stated: bool = False) -> Iterator[_Change]:
    out = cluster.scale_out
    if cluster.nodes == 1 or out.fabric is not None:
        return
    fewer = {out.nics_per_node // part for part in (2, 4, out.nics_per_node)} - {0, out.nics_per_node}
    slower = () if fewer else (0.25, 0.5)
    others = [out.model_copy(update={"nics_per_node": n}) for n in sorted(fewer)]
    others += [out.model_copy(update={"nic_bytes_per_s": out.nic_bytes_per_s * f}) for f in (*slower, 2.0)]
    for other in others:
        update = {"scale_out": other}
        yield _Change("cluster.scale_out", ports_text(out), ports_text(other), cluster=update, stated=stated)


def _changes(x: PreparedStep, scenario: Scenario) -> Iterator[_Change]:
    yield from _training_changes(x, scenario)
    yield from _plan_changes(x, scenario)
    yield from _cluster_changes(x.cluster)


def _training_changes(prepared: PreparedStep, scenario: Scenario) -> Iterator[_Change]:
    training, plan = prepared.training, prepared.plan
    given = scenario.training.model_fields_set if scenario.training else frozenset()

    def options(name: str, now: str, values: tuple[Any, ...]) -> Iterator[_Change]:
        for value in values:
            if _shown(value) != now:
                yield _Change(f"training.{name}", now, _shown(value), training={name: value})

    if training.attention == "auto":
        newer = ("flash3",) if prepared.cluster.device.generation == "hopper" else ()
        known = tuple(k for k in ("flash2", "cudnn", "sdpa") if k in prepared.coefficients.attention_fraction)
        yield from options("attention", plan.attention, (*known, *newer, "unfused"))
    if "cuda_graphs" not in given:
        yield from options("cuda_graphs", plan.cuda_graphs, ("none", "layer", "full"))
    if "compile" not in given:
        yield from options("compile", _shown(prepared.behaviour.compile), (True, False))
    if "fused_cross_entropy" not in given:
        yield from options("fused_cross_entropy", _shown(plan.fused_loss), (True, False))
    if "precision" not in given:
        yield from options("precision", training.precision, ("bf16", "fp8", "fp16", "fp32"))
    if "framework" not in given:
        yield from options(
            "framework", training.framework, ("megatron_core", "nemo", "megatron_2021", "fsdp1", "torchtitan")
        )
    if plan.dp * plan.cp > 1 and training.grad_reduce_precision is None:
        now = {4.0: "fp32", 2.0: "bf16"}.get(prepared.behaviour.grad_bytes, "")
        yield from options("grad_reduce_precision", now, ("fp32", "bf16"))
    if "gradient_accumulation_sync" not in given and plan.m > 1:
        yield from options("gradient_accumulation_sync", _shown(training.gradient_accumulation_sync), (True, False))
    if "mean_document_length" not in given:
        for part in (4, 16):
            length = training.seq_len / part
            yield _Change(
                "training.mean_document_length",
                "whole sequences",
                f"{length:g}",
                training={"mean_document_length": length},
            )
    if prepared.model.num_experts:
        if training.moe_dispatcher is None:
            yield from options("moe_dispatcher", plan.dispatcher, ("alltoall", "allgather", "deepep"))
        if plan.ep > 1 and "expert_load" not in given:
            for factor in (1.2, 1.5, 2.0):
                load = ExpertLoad(imbalance=factor)
                yield _Change(
                    "training.expert_load",
                    "even",
                    f"busiest {factor:g} x the mean",
                    training={"expert_load": load},
                )


def _plan_changes(prepared: PreparedStep, scenario: Scenario) -> Iterator[_Change]:
    plan, given = prepared.plan, scenario.plan.model_fields_set
    if "recompute" not in given:
        yield from _recomputations(plan.recompute.policy)
    if plan.tp > 1 and scenario.plan.sp is None:
        yield _Change("plan.sp", _shown(plan.sp), _shown(not plan.sp), plan={"sp": not plan.sp})
    if "zero" not in given and plan.dp * plan.cp > 1:
        for stage in (0, 1, 2, 3):
            if stage != plan.zero:
                yield _Change("plan.zero", str(plan.zero), str(stage), plan={"zero": stage})
    if "mbs" not in given:
        for size in (1, 2, 4):
            if size != plan.mbs:
                yield _Change("plan.mbs", str(plan.mbs), str(size), plan={"mbs": size})
    if plan.pp > 1 and scenario.plan.schedule is None:
        for name in ("gpipe", "1f1b", "interleaved_1f1b", "zb_h1"):
            if name != plan.schedule:
                yield _Change("plan.schedule", plan.schedule, name, plan={"schedule": name})
    acts = {
        "tp": plan.tp > 1,
        "p2p": plan.pp > 1,
        "moe_a2a": plan.ep > 1,
        "fsdp_prefetch": plan.zero == 3,
        "grad_reduce": plan.dp * plan.cp > 1 and plan.zero < 3,
        "param_gather": plan.dp * plan.cp > 1 and plan.zero in (1, 2),
    }
    left = [name for name, matters in acts.items() if matters and getattr(scenario.plan.overlap, name) is None]
    if len(left) > 1:
        none = Overlap.model_validate(scenario.plan.overlap.model_dump(exclude_unset=True) | dict.fromkeys(left, False))
        yield _Change("plan.overlap", f"as {prepared.training.framework}", "off", plan={"overlap": none})
    for name, matters in acts.items():
        if matters and getattr(scenario.plan.overlap, name) is None:
            now = getattr(plan, name if name == "fsdp_prefetch" else f"overlap_{name}")
            values = {**scenario.plan.overlap.model_dump(exclude_unset=True), name: not now}
            yield _Change(
                f"plan.overlap.{name}", _shown(now), _shown(not now), plan={"overlap": Overlap.model_validate(values)}
            )


def _cluster_changes(cluster: ClusterSpec) -> Iterator[_Change]:
    device = cluster.device
    if any(item.startswith("cluster.scale_out") for item, _, _ in cluster.assumed):
        yield from _networks(cluster)
    if cluster.power_cap_w is None and device.tdp_w:
        for share in (0.85, 0.7):
            watts = round(device.tdp_w * share)
            yield _Change("cluster.power_cap_w", "none", f"{watts} W", cluster={"power_cap_w": float(watts)})


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


_STACK = frozenset({"multi_node_host", "multi_node_skew", "partial_node_scale"})
"""Factors that only some software stacks have; a factor of one is absent and has no uncertainty."""


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A coefficient of the chain, and the change of the step with one standard error of it."""

    entry: Provenance
    classes: tuple[str, ...]
    step_change_s: float
    """Step if the coefficient were one standard error larger, minus the step."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "name": self.entry.name,
            "value": self.entry.value,
            "width": self.entry.width,
            "grade": self.entry.grade,
            "source": self.entry.source,
            "classes": list(self.classes),
            "step_change_s": self.step_change_s,
        }


def uncertain_coefficients(prepared: PreparedStep, scenario: Scenario, chain: Chain) -> list[Uncertain]:
    """Simulate one standard error of every coefficient that moves the step; largest effect first."""
    known = provenance(prepared.training.framework, prepared.cluster.device, prepared.cluster)
    named: dict[str, tuple[Provenance, list[str]]] = {}
    for term in chain.terms:
        for entry in term.coefficients:
            classes = named.setdefault(entry.name, (entry, []))[1]
            if term.time_class not in classes:
                classes.append(term.time_class)
    own = coefficients(prepared.training.framework, prepared.cluster.device, prepared.cluster)
    scaled = own.gemm_fraction != prepared.coefficients.gemm_fraction
    out = []
    for name, stated in known.items():
        entry, classes = named.get(name, (stated, [c for c in chain.exposed if name.startswith(f"{c}_")]))
        if entry.value <= 0 or (name in _BOARD and not scaled) or (name in _STACK and entry.value == 1.0):
            continue
        seconds = with_coefficient(prepared, scenario, name, entry.value * (1 + entry.width))
        change = seconds - chain.step_time_s
        if abs(change) > 1e-6 * chain.step_time_s:
            out.append(Uncertain(entry, tuple(classes), change))
    return sorted(out, key=lambda u: -abs(u.step_change_s))


def with_coefficient(prepared: PreparedStep, scenario: Scenario, name: str, value: float) -> float:
    """Seconds of the step with one coefficient replaced by `value`, which holds on this board (after power limits)."""
    from windtunnel.training.explain.build_chain import variant

    key, _, entry = name.partition(".")
    table = getattr(coefficients(prepared.training.framework, prepared.cluster.device, prepared.cluster), key)
    used = getattr(prepared.coefficients, key)
    if not entry:
        return step_time(variant(prepared, scenario, {key: table * (value / used) if used else value}))
    if entry not in table or not used.get(entry):
        return step_time(prepared)
    return step_time(variant(prepared, scenario, {key: {**table, entry: table[entry] * (value / used[entry])}}))


def _most(name: str, value: float) -> float:
    """Largest physical value of a coefficient: a fraction of a data-sheet rate is at most one."""
    base = name.partition(".")[0]
    bound = (
        1.0
        if base.endswith("_fraction") or base == "partial_node_scale"
        else 1.2
        if base in ("scale_up_scale", "scale_out_scale")
        else math.inf
    )
    return max(bound, value)


def coefficient_candidates(
    prepared: PreparedStep, scenario: Scenario, uncertain: list[Uncertain], gap_s: float, step_s: float
) -> list[Candidate]:
    """Value of each coefficient that would close the gap, or the farthest plausible value where none closes it."""
    out = []
    for u in uncertain:
        if abs(u.step_change_s) < _LEAST_CHANGE * 0.5 * step_s:
            continue
        needed = gap_s / u.step_change_s  # to first order, in standard errors
        sigmas = max(-PLAUSIBLE_SIGMA, min(PLAUSIBLE_SIGMA, needed))
        value = min(u.entry.value * max(1 + u.entry.width * sigmas, 0.05), _most(u.entry.name, u.entry.value))
        sigmas = (value / u.entry.value - 1) / u.entry.width
        seconds = with_coefficient(prepared, scenario, u.entry.name, value)
        note = (
            "" if abs(needed) <= PLAUSIBLE_SIGMA else f"closing the gap alone takes {abs(needed):.1f} standard errors"
        )
        out.append(
            Candidate(
                kind="coefficient",
                name=u.entry.name,
                value=f"{u.entry.value:.4g}",
                alternative=f"{value:.4g}",
                step_time_s=seconds,
                change_s=seconds - step_s,
                sigmas=sigmas,
                grade=u.entry.grade,
                note=note,
            )
        )
    return out
