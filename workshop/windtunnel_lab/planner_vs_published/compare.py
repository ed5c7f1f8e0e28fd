"""One group: its row plans simulated, its space searched, and what the difference is made of."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from windtunnel import catalog
from windtunnel.errors import Infeasible, WindtunnelError
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.planner.plan_training import plan
from windtunnel.planner.result import PlanResult
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import Recompute
from windtunnel.specs.scenario import Scenario
from windtunnel.training.prepare_step import prepare
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.training.simulate_step import simulate_step
from windtunnel.training.step_setup import PreparedStep
from windtunnel.training.uncertainty.comparable_runs import describe
from windtunnel.training.uncertainty.plan_difference import paired_difference
from windtunnel.validation.rows.read_row import RowCase
from windtunnel.validation.rows.targets import at_step_time
from windtunnel_lab.planner_vs_published.groups import Group
from windtunnel_lab.planner_vs_published.space import searches

SAME = 1e-9
"""Relative difference below which two simulated times are one."""
_CLASSES = {
    "gemm": "matrix products",
    "attention": "attention kernels",
    "memory bound": "memory-bound kernels",
    "scan": "scans",
    "recompute": "recomputation",
    "exposed tp": "tensor-parallel communication",
    "exposed pp": "pipeline hops",
    "exposed dp": "data-parallel communication",
    "exposed ep": "expert communication",
    "exposed cp": "context-parallel communication",
    "exposed offload": "offload copies",
    "bubble": "pipeline bubble",
    "slowed by overlap": "contention",
}
"""Class of the breakdown → word of the table; absent: its own name."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """One plan that was measured."""

    plan: str
    simulated_s: float
    measured_s: float | None
    """None where the row states memory alone."""
    reserved_gib: float
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the planner made of a group."""

    key: str
    families: tuple[str, ...]
    model: str
    device: str
    devices: int
    seq_len: int
    global_batch: int
    precision: str
    framework: str
    phase: str
    rows: int
    capacity_gib: float
    best_row: RowPlan
    """The fastest row plan as simulated."""
    measured_best: RowPlan | None
    """The fastest row plan as measured."""
    choices: int
    """Distinct row plans."""
    verdict: str
    """same: the row's plan is the best of the space. faster: the planner's is. memory: the row's is faster as
    simulated, but would not fit. slower: the space lacks the row's plan, or a rule refuses it. failed: no row could be
    simulated."""
    plan: str = ""
    """The planner's."""
    plan_s: float = 0.0
    reserved_gib: float = 0.0
    changes: str = ""
    parts: tuple[tuple[str, float], ...] = ()
    """Class of time → what the planner's plan saves of it, as a share of the row's step; largest first."""
    told_apart: bool = False
    """Whether the paired interval of the two step times leaves out 1."""
    low: float = 0.0
    """Lower edge of that band: row over planner."""
    candidates: int = 0
    simulated: int = 0
    searched_s: float = 0.0
    note: str = ""

    @property
    def gain(self) -> float:
        """Share of the best row's simulated step that the planner's plan saves."""
        return 1.0 - self.plan_s / self.best_row.simulated_s if self.plan_s else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a line of JSON."""
        return {**asdict(self), "gain": self.gain}


def outcome_of(data: dict[str, Any]) -> Outcome:
    """What `to_dict` wrote."""
    fields = {name: value for name, value in data.items() if name != "gain"}
    for name in ("best_row", "measured_best"):
        if fields[name] is not None:
            fields[name] = RowPlan(**fields[name])
    fields["families"] = tuple(fields["families"])
    fields["parts"] = tuple((name, share) for name, share in fields["parts"])
    return Outcome(**fields)


def words(plan: ResolvedPlan) -> dict[str, str]:
    """A plan as the table shows it: axes above 1, micro-batch, sharding, recomputation."""
    shown = {name: str(getattr(plan, name)) for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "dp")}
    shown = {name: value for name, value in shown.items() if value != "1"}
    shown["mbs"] = str(plan.mbs)
    if plan.dp * plan.cp > 1:
        shown["zero"] = str(plan.zero)
        if plan.zero and plan.shard_group != plan.dp * plan.cp:
            shown["shard"] = str(plan.shard_group)
    if plan.tp > 1 and not plan.sp:
        shown["sp"] = "off"
    shown["recompute"] = recompute_words(plan.recompute)
    for name in ("activations", "optimizer", "params"):
        if share := getattr(plan.offload, name):
            shown[f"offload_{name}"] = f"{share:.0%}"
    return shown


def recompute_words(policy: Recompute) -> str:
    """`full`, `selective`, or the modules."""
    name = "+".join(policy.modules) if policy.policy == "modules" else policy.policy
    if name == "core_attn":
        name = "selective"
    return name + (f":{policy.num_layers}" if policy.num_layers is not None else "")


def text(shown: dict[str, str]) -> str:
    """`tp 8 pp 4 …`."""
    return " ".join(f"{name} {value}" for name, value in shown.items())


def changes(a: dict[str, str], b: dict[str, str]) -> str:
    """What turns plan `a` into plan `b`."""
    names = dict.fromkeys(n for n in (*a, *b) if n != "sp" or ("tp" in a and "tp" in b))
    usual = {"zero": "–", "recompute": "none", "sp": "on", "shard": "all"}
    usual |= dict.fromkeys((n for n in names if n.startswith("offload")), "0%")
    pairs = [(n, a.get(n, usual.get(n, "1")), b.get(n, usual.get(n, "1"))) for n in names]
    return ", ".join(f"{n} {old} → {new}" for n, old, new in pairs if old != new)


def saved(row: TrainingResult, best: TrainingResult) -> tuple[tuple[str, float], ...]:
    """Class of time → row less planner, as a share of the row's step; the shares sum to the gain."""
    out: dict[str, float] = {}
    for sign, result in ((1.0, row), (-1.0, best)):
        for name, seconds in result.breakdown.items():
            word = _CLASSES.get(name, name)
            out[word] = out.get(word, 0.0) + sign * seconds / row.step_time_s
    return tuple(sorted(((n, v) for n, v in out.items() if abs(v) > SAME), key=lambda x: -x[1]))


def identity(group: Group, others: Sequence[Group] = ()) -> str:
    """What an outcome depends on, simulator and catalogue apart."""
    asked = [s.model_dump_json(exclude={"name"}) for s in (*searches(group, others), *group.scenarios)]
    return f"{group.key}-{hashlib.sha256(''.join(asked).encode()).hexdigest()[:8]}"


def compare(group: Group, others: Sequence[Group] = ()) -> Outcome:
    """Simulate the plans of a group's rows, search its space, and say what differs. Never raises on a row."""
    begun = time.perf_counter()
    ran, choices, refused = _simulate_rows(group)
    about = _about(group, others)
    if not ran:
        nothing = RowPlan("", 0.0, None, 0.0, False)
        note = "; ".join(refused)[:400]
        return Outcome(**about, best_row=nothing, measured_best=None, choices=0, verdict="failed", note=note)
    best_case, best_prepared, best_result = min(ran, key=lambda r: r[2].step_time_s)
    row = _row(best_case, best_prepared, best_result)
    about |= {"choices": choices, "best_row": row, "measured_best": _fastest_measured(ran)}
    found, counts, notes = _search(group, others)
    notes += refused
    counts["searched_s"] = time.perf_counter() - begun
    if found is None:
        verdict = "slower" if row.fits else "memory"
        return Outcome(**about, **counts, verdict=verdict, note="; ".join(notes)[:400])
    prepared, best = _simulate(Scenario.model_validate(found.scenario))
    return Outcome(
        **about,
        **counts,
        verdict=_verdict(row, best_prepared.plan, prepared.plan, best.step_time_s),
        plan=text(words(prepared.plan)),
        plan_s=best.step_time_s,
        reserved_gib=best.peak_memory_reserved_bytes / 2**30,
        changes=changes(words(best_prepared.plan), words(prepared.plan)),
        parts=saved(best_result, best),
        note="; ".join(notes)[:400],
        **_told_apart(best_prepared, best_result, prepared, best),
    )


_Simulated = tuple[RowCase, PreparedStep, TrainingResult]


def _simulate_rows(group: Group) -> tuple[list[_Simulated], int, list[str]]:
    """Rows with their simulated steps, how many distinct plans these are, and why other rows were refused."""
    ran: list[_Simulated] = []
    refused: list[str] = []
    by_plan: dict[str, tuple[PreparedStep, TrainingResult]] = {}
    for case in group.cases:
        assert case.scenario is not None
        key = case.scenario.plan.model_dump_json()
        try:
            if key not in by_plan:
                by_plan[key] = _simulate(case.scenario)
            ran.append((case, *by_plan[key]))
        except WindtunnelError as error:
            refused.append(" ".join(str(error).split())[:160])
    return ran, len(by_plan), refused


def _fastest_measured(ran: list[_Simulated]) -> RowPlan | None:
    """The row plan with the shortest measured step; None where no row states a time."""
    timed = [(r, seconds) for r in ran if (seconds := measured_s(r[0], r[2])) is not None]
    fastest = min(timed, key=lambda x: x[1], default=None)
    return _row(*fastest[0]) if fastest else None


def _about(group: Group, others: Sequence[Group]) -> dict[str, Any]:
    cluster, training = catalog.resolve_cluster(group.scenarios[0].cluster), group.training
    return {
        "key": identity(group, others),
        "families": group.families,
        "rows": len(group.cases),
        "model": group.model.name,
        "device": cluster.device.id,
        "devices": cluster.num_devices,
        "capacity_gib": cluster.device.memory_bytes / 2**30,
        "framework": training.framework,
        "phase": training.phase,
        "seq_len": training.seq_len,
        "global_batch": training.global_batch,
        "precision": training.precision,
    }


def _simulate(scenario: Scenario) -> tuple[PreparedStep, TrainingResult]:
    assert scenario.training is not None and isinstance(scenario.model, ModelSpec)
    cluster = catalog.resolve_cluster(scenario.cluster)
    prepared = prepare(scenario.model, cluster, scenario.training, scenario.plan)
    return prepared, simulate_step(prepared, name=scenario.name)


def measured_s(case: RowCase, result: TrainingResult) -> float | None:
    """Step time of a row from what it measured: rates by how our own step converts to them."""
    if not case.metrics or case.metrics[0].metric == "oom" or "memory" in case.metrics[0].metric:
        return None
    target = case.metrics[0]
    ours = target.convert(result)
    if not ours > 0 or not target.measured > 0:
        return None
    rising = target.convert(at_step_time(result, 2.0 * result.step_time_s)) > ours
    ratio = target.measured / ours
    return result.step_time_s * (ratio if rising else 1.0 / ratio)


def _row(case: RowCase, prepared: PreparedStep, result: TrainingResult) -> RowPlan:
    return RowPlan(
        text(words(prepared.plan)),
        result.step_time_s,
        measured_s(case, result),
        result.peak_memory_reserved_bytes / 2**30,
        result.memory_fits,
    )


def _search(group: Group, others: Sequence[Group]) -> tuple[PlanResult | None, dict[str, Any], list[str]]:
    """The fastest plan over the group's searches, with their counts and what went wrong."""
    best: PlanResult | None = None
    counts, notes = {"candidates": 0, "simulated": 0}, []
    for scenario in searches(group, others):
        try:
            found = plan(scenario)
        except Infeasible as error:
            notes.append(" ".join(str(error).split())[:160])
            continue
        counts["candidates"] += found.proof.candidates
        counts["simulated"] += found.proof.simulated
        if best is None or found.best.step_time_s < best.best.step_time_s:
            best = found
    return best, counts, notes if best is None else []


def _verdict(row: RowPlan, theirs: ResolvedPlan, ours: ResolvedPlan, seconds: float) -> str:
    if seconds > row.simulated_s * (1.0 + SAME):
        return "slower" if row.fits else "memory"
    return "same" if theirs == ours or seconds > row.simulated_s * (1.0 - SAME) else "faster"


def _told_apart(a: PreparedStep, slow: TrainingResult, b: PreparedStep, fast: TrainingResult) -> dict[str, Any]:
    one, other = (describe(x.training, x.cluster, x.model, x.plan) for x in (b, a))
    band = paired_difference(one, other, fast.step_time_s, slow.step_time_s, fast.interval, slow.interval)
    return {"told_apart": band.told_apart and band.ratio > 1.0, "low": band.low}
