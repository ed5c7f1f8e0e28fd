"""Published systems as passes: a file each says what one is, a module beside it what it changes (`declared.py`).

Others are found by entry points `windtunnel.techniques`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput, ProblemList, nearest_name
from windtunnel.techniques.base import LEVELS, Applied, Technique, Work
from windtunnel.techniques.declared import Techniques
from windtunnel.techniques.limits import Limits
from windtunnel.techniques.selected import chosen as selections

if TYPE_CHECKING:
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.jobs import JobsSpec
    from windtunnel.specs.run import RunSpec
    from windtunnel.specs.scenario import Scenario
    from windtunnel.specs.workload import TrainingSpec

__all__ = [
    "LEVELS",
    "REGISTRY",
    "Applied",
    "Limits",
    "Technique",
    "applied",
    "idle",
    "on_cluster",
    "on_jobs_section",
    "on_run_section",
    "on_workload",
    "remarks",
]

REGISTRY = Techniques("techniques", package="windtunnel.techniques.published")


def applied(
    chosen: Sequence[str | dict[str, dict[str, Any]]], problems: ProblemList | None = None
) -> tuple[Applied, ...]:
    """Look techniques up, set their knobs, order them by level and `after`, and detect conflicts.

    Raises:
        BadInput: unknown ids or knobs, values out of range, conflicting edits; all at once. With `problems` they are
            collected there instead, and what could be read is returned.
    """
    own = problems if problems is not None else ProblemList()
    out: list[Applied] = []
    for entry in chosen:
        for technique_id, given in ({entry: {}} if isinstance(entry, str) else entry).items():
            try:
                technique = REGISTRY.get(technique_id, field="techniques")
            except BadInput as error:
                own.extend(error.problems)
                continue
            if any(item.technique.id == technique.id for item in out):
                own.add("techniques", technique.id, "is given twice")
                continue
            out.append(Applied(technique, _knobs(technique, given or {}, own)))
    _check_conflicts(out, own)
    if problems is None:
        own.raise_if_any()
    return _ordered(out)


def remarks(chosen: Sequence[Applied], scenario: Scenario, work: Work = "training") -> tuple[str, ...]:
    """Warnings: techniques that do nothing in a scenario, and what partial ones leave out.

    Args:
        chosen: techniques.
        scenario: that names them.
        work: what the scenario is simulated as.
    """
    reasons = idle(chosen, scenario, work)
    out: list[str] = []
    for item in chosen:
        one = item.technique
        if one.id in reasons:
            out.append(f"technique {one.id} does not apply here: {reasons[one.id]}")
        elif one.status == "partial":
            out.append(f"technique {one.id} is partial: {one.missing}")
    return tuple(out)


def idle(chosen: Sequence[Applied], scenario: Scenario, work: Work = "training") -> dict[str, str]:
    """Technique → why it does nothing in a scenario, of those that do nothing."""
    found = {t.technique.id: t.technique.reason(work, scenario) for t in chosen}
    return {name: reason for name, reason in found.items() if reason}


def on_cluster(chosen: Sequence[Applied], cluster: ClusterSpec, problems: ProblemList) -> ClusterSpec:
    """The cluster with what techniques exchange of it; what cannot be is added to `problems`."""
    from windtunnel.specs.cluster import MixedCluster

    for item in chosen:
        if not item.changes_cluster:
            continue
        if isinstance(cluster, MixedCluster):
            problems.add("techniques", item.technique.id, "does not act on groups of unlike devices (cluster.groups)")
            continue
        try:
            cluster = item.on_cluster(cluster)
        except BadInput as error:
            problems.extend(error.problems)
    return cluster


def on_workload(chosen: Sequence[Applied], training: TrainingSpec | None) -> TrainingSpec | None:
    """The training section with what techniques set in it."""
    if training is not None:
        for item in chosen:
            training = item.on_workload(training)
    return training


def on_run_section(chosen: Sequence[Applied], run: RunSpec, scenario: Scenario) -> RunSpec:
    """The run section with what techniques set in it, its failure profile looked up where one of them acts on it.

    Raises:
        BadInput: the profile is not known, or a technique cannot do what its knobs ask for.
    """
    acting = [t for t in chosen if t.technique.run_section and not t.technique.applies_to_run(scenario)]
    if acting and isinstance(run.failures, str):
        from windtunnel.catalog.run_tables import failure_profile

        run = run.model_copy(update={"failures": failure_profile(run.failures)})
    for item in acting:
        run = item.on_run_section(run, scenario)
    return run


def on_jobs_section(chosen: Sequence[Applied], jobs: JobsSpec, scenario: Scenario) -> JobsSpec:
    """The jobs section with what techniques set in it.

    Raises:
        BadInput: a technique cannot do what its knobs ask for.
    """
    for item in chosen:
        if item.technique.jobs_section and not item.technique.applies_to_jobs(scenario):
            jobs = item.on_jobs_section(jobs)
    return jobs


def _knobs(technique: Technique, given: dict[str, Any], problems: ProblemList) -> dict[str, Any]:
    """Defaults with the given values laid over them."""
    knobs = {name: knob.default for name, knob in technique.knobs.items()}
    for name, value in given.items():
        field = f"techniques.{technique.id}.{name}"
        if name not in knobs:
            rule = f"unknown knob; known are {', '.join(knobs) or 'none'}"
            problems.add(field, value, rule, nearest=nearest_name(name, knobs))
        elif rule := technique.knobs[name].problem(value) or "":
            problems.add(field, value, rule)
        else:
            knobs[name] = value
    return knobs


def conflict(first: Applied, second: Applied) -> str:
    """Why two techniques do not go together, the same whichever comes first; empty where they do.

    Two that edit one tag at one level, or select different entries for one slot, conflict unless one comes `after` the
    other (or requires it).
    """
    a, b = sorted((first, second), key=lambda item: item.technique.id)
    if b.technique.id in a.technique.follows or a.technique.id in b.technique.follows:
        return ""
    shared = [edit for edit in a.technique.edits if edit in b.technique.edits]
    if shared:
        return "both edit " + ", ".join(f"{tag} at level {level}" for level, tag in shared)
    mine, theirs = (selections(item.technique.selects, item.knobs) for item in (a, b))
    differing = [slot for slot in mine if slot in theirs and theirs[slot] != mine[slot]]
    return "both select " + ", ".join(f"{x} ({mine[x]} and {theirs[x]})" for x in differing) if differing else ""


def _check_conflicts(chosen: list[Applied], problems: ProblemList) -> None:
    """Every pair that conflicts, and everything that is required and not there."""
    ids = {item.technique.id for item in chosen}
    for i, first in enumerate(chosen):
        for second in chosen[i + 1 :]:
            if why := conflict(first, second):
                problems.add("techniques", second.technique.id, f"conflicts with {first.technique.id}: {why}")
        for wanted in first.technique.requires:
            if wanted not in ids:
                problems.add("techniques", first.technique.id, f"needs {wanted}, which the list does not name")


def _ordered(chosen: list[Applied]) -> tuple[Applied, ...]:
    """By lowest level, then by id, then so that each follows what it comes `after`: whatever the order given."""
    rank = {name: i for i, name in enumerate(LEVELS)}

    def place(item: Applied) -> tuple[int, str]:
        return min((rank[level] for level in item.technique.levels), default=0), item.technique.id

    waiting = sorted(chosen, key=place)
    out: list[Applied] = []
    while waiting:
        ids = {item.technique.id for item in waiting}
        free = next((x for x in waiting if not ids & (x.technique.follows - {x.technique.id})), waiting[0])
        waiting.remove(free)
        out.append(free)
    return tuple(out)
