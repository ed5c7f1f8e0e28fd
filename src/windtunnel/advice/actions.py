"""What may be tried on a scenario: techniques with their knobs, and a few settings that often decide if one pays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique, Work

VARIANTS, SERVED, SLOW = 5, 3, 2
"""Settings of knobs next to the defaults that one technique is tried with at most: of training, of serving, of serving
where iterations have to be priced anew."""


@dataclass(frozen=True, slots=True)
class Action:
    """One change to a scenario."""

    name: str
    """Id of a technique, or a setting in words (`recompute full`)."""
    technique: Technique | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """That differ from the defaults."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Merged into the scenario, for settings."""

    @property
    def entry(self) -> str | dict[str, dict[str, Any]]:
        """What a scenario lists under `techniques`."""
        return {self.name: dict(self.knobs)} if self.knobs else self.name

    @property
    def lossless(self) -> bool:
        """Whether results stay what they were."""
        one = self.technique
        if one is None or not one.quality:
            return True
        return bool(one.lossless) and all(self.knobs.get(k, one.knobs[k].default) == v for k, v in one.lossless.items())

    @property
    def like_for_like(self) -> bool:
        """Whether it is the same model on the same hardware."""
        return self.lossless and not (self.technique and self.technique.adds)

    @property
    def words(self) -> str:
        """Name and knobs on one line."""
        return " ".join([self.name, *(f"{k}={_short(v)}" for k, v in self.knobs.items())])


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def named(entries: tuple[str | dict[str, dict[str, Any]], ...]) -> tuple[str, ...]:
    """Ids of what a scenario lists under `techniques`."""
    return tuple(x for entry in entries for x in ([entry] if isinstance(entry, str) else entry))


def techniques(scenario: Scenario, work: Work) -> tuple[list[Action], dict[str, str]]:
    """Techniques that a scenario does not use yet, at their defaults; and why the others do not apply."""
    used = named(scenario.techniques)
    found: list[Action] = []
    reasons: dict[str, str] = {}
    for identity in REGISTRY.list():
        one = REGISTRY.get(identity)
        if identity in used:
            continue
        reason = one.reason(work, scenario)
        if one.status == "planned":
            reason = "it is planned, not built"
        elif not reason and "device" in one.selects:
            reason = f"it is another platform: compare with --set cluster.device={one.selects['device']}"
        if reason:
            reasons[identity] = reason
            continue
        found.append(Action(identity, one))
        if one.quality and one.lossless:
            found.append(Action(identity, one, dict(one.lossless)))
    return found, reasons


def variants(action: Action) -> Iterator[Action]:
    """The same technique with one knob away from its default: other choices, halves of the way to both ends.

    What costs quality is tried as published alone: more of the same would always gain. Facts of the hardware stay too.
    """
    if action.technique is None or not action.lossless:
        return
    tried = 0
    part = action.technique.serving
    most = SLOW if part is not None and part.acts_on_iterations else SERVED if part is not None else VARIANTS
    for name, knob in action.technique.knobs.items():
        for value in () if knob.given or name in action.technique.lossless else _others(knob):
            if tried == most:
                return
            tried += 1
            yield Action(action.name, action.technique, {**action.knobs, name: value})


def smaller(action: Action) -> Iterator[Action]:
    """The same technique with one count smaller, for those that do not divide what they should at their defaults."""
    if action.technique is None:
        return
    for name, knob in action.technique.knobs.items():
        if not isinstance(knob.default, int) or isinstance(knob.default, bool):
            continue
        value = knob.default // 2
        while value >= 2 and knob.problem(value) is None and value >= knob.default // 8:
            yield Action(action.name, action.technique, {**action.knobs, name: value})
            value //= 2


def _others(knob: Knob) -> list[Any]:
    if knob.choices:
        return [c for c in knob.choices if c != knob.default]
    if isinstance(knob.default, bool):
        return [not knob.default]
    if isinstance(knob.default, int):
        return _counts(knob)
    if not isinstance(knob.default, float):
        return []
    values = [_between(knob.default, end) for end in (knob.low, knob.high) if end is not None]
    return list(dict.fromkeys(v for v in values if v != knob.default))


def _counts(knob: Knob) -> list[int]:
    """Half and double where the default is a power of two, which sizes of plans mostly are; else between the ends."""
    default = int(knob.default)
    if default > 0 and default & (default - 1) == 0:
        values = [default // 2, 2 * default]
    else:
        values = [round(_between(default, end)) for end in (knob.low, knob.high) if end is not None]
    return [v for v in dict.fromkeys(values) if v != default and knob.problem(v) is None]


def _between(default: float, end: float) -> float:
    """Half way, in equal factors where both are positive."""
    return math.sqrt(default * end) if default > 0 and end > 0 else 0.5 * (default + end)


def settings(scenario: Scenario, plan: Mapping[str, Any]) -> list[Action]:
    """Settings of the plan next to which a technique may pay, or may not: recomputation and the micro-batch.

    Args:
        scenario: of training.
        plan: as resolved.
    """
    out = []
    now = plan["recompute"]["policy"]
    out += [
        Action(f"recompute {policy}", changes={"plan": {"recompute": {"policy": policy}}})
        for policy in ("none", "selective", "full")
        if policy != now
    ]
    assert scenario.training is not None
    mbs, replicas = scenario.plan.mbs, scenario.training.global_batch // int(plan["dp"])
    out += [
        Action(f"mbs {size}", changes={"plan": {"mbs": size}})
        for size in (2 * mbs, mbs // 2)
        if size and replicas % size == 0
    ]
    return out


def layouts(scenario: Scenario) -> list[Action]:
    """Settings that often decide more than a technique: no drafts; of one pool, devices cut otherwise, other budgets.

    Args:
        scenario: of serving.
    """
    serving = scenario.serving
    pools = scenario.model_dump(mode="json", exclude_unset=True).get("serving", {}).get("pools", [])
    out = []
    if serving is not None and serving.speculation is not None:
        out.append(Action("no speculation", changes={"serving": {"speculation": None}}))
    if serving is None or len(pools) != 1 or serving.pools[0].role != "mixed":
        return out
    (pool,), (spec,) = pools, serving.pools
    for tp, replicas in ((2 * spec.plan.tp, spec.replicas / 2), (spec.plan.tp // 2, 2.0 * spec.replicas)):
        if tp and replicas == int(replicas):
            changed = {**pool, "replicas": int(replicas), "plan": {**pool.get("plan", {}), "tp": tp}}
            out.append(Action(f"{int(replicas)} x tp {tp}", changes={"serving": {"pools": [changed]}}))
    chunk = spec.limits.max_num_batched_tokens if spec.limits is not None else None
    for size in (chunk // 2, 2 * chunk) if chunk else (2048, 16384):
        changed = {**pool, "limits": {**(pool.get("limits") or {}), "max_num_batched_tokens": size}}
        out.append(Action(f"max_num_batched_tokens {size}", changes={"serving": {"pools": [changed]}}))
    return out


INTERVAL_AUTO = "interval auto"
"""Of saves: the shortest expected run."""
_FAR: dict[str, Any] = {"to": "storage", "mode": "async", "every": 8}
_LAYERED: tuple[tuple[str, tuple[dict[str, Any], ...]], ...] = (
    ("saves async", ({"to": "storage", "mode": "async"},)),
    ("saves lazy", ({"to": "storage", "mode": "lazy"},)),
    ("saves to host, 8th to storage", ({"to": "host", "mode": "async"}, _FAR)),
    ("saves to peers, 8th to storage", ({"to": "peer", "mode": "async"}, _FAR)),
)


def run_settings(scenario: Scenario, nodes: int) -> list[Action]:
    """Settings of a run next to which a technique may pay: where and how often it saves, spares, going on with fewer.

    Args:
        scenario: with its `run` section.
        nodes: of the job.
    """
    run = scenario.run
    assert run is not None
    out = []
    checkpoint = run.checkpoint
    if checkpoint.interval != "auto" or checkpoint.interval_steps is not None:
        at_best = {"interval": "auto", "interval_steps": None}
        out.append(Action(INTERVAL_AUTO, changes={"run": {"checkpoint": at_best}}))
    now = [(tier.to, tier.mode) for tier in checkpoint.tiers]
    stated = next((t.model_dump(mode="json", exclude_unset=True) for t in checkpoint.tiers if t.to == "storage"), {})
    kept = {k: v for k, v in stated.items() if k not in ("mode", "every", "block_s", "save_s", "to")}
    for words, tiers in _LAYERED:
        laid = [{**t, **(kept if t["to"] == "storage" else {})} for t in tiers]
        if [(t["to"], t["mode"]) for t in laid] != now:
            changed = {"interval": "auto", "interval_steps": None, "tiers": laid}
            out.append(Action(words, changes={"run": {"checkpoint": changed}}))
    r = run.recovery
    for spares in (r.spares + 1, max(2 * r.spares, 4), *([r.spares // 2] if r.spares else [])):
        if spares + r.pool_nodes + r.shared_nodes <= nodes:
            words = "1 spare" if spares == 1 else f"{spares} spares"
            out.append(Action(words, changes={"run": {"recovery": {"spares": spares}}}))
    for policy in ("restart", "shrink"):
        if r.policy != policy:
            out.append(Action(f"policy {policy}", changes={"run": {"recovery": {"policy": policy}}}))
    return list({action.name: action for action in out}.values())
