"""Paths of the few large flows of collectives are planned, not hashed; faulty nodes show in the timing of collectives.

A collective opens few connections, each for long and of the same size. Hashed onto the links above a leaf switch, two
of them meet on one link while others stand empty, and the collective waits for those two. The plan gives each
connection the spine where the fuller of its two links is emptiest (`cluster.scale_out.fabric.routing: planned`).

In a whole run its detector acts too. Collectives come each step and every rank does the same in them, so that the rank
that does not come, or comes late, stands out after a few of them: failures and stragglers are known after `detect_s` in
place of a time-out, and the node is known too, so that it is replaced after `isolate_s` without a search by hand. What
leaves no trace in timing (corrupt values), what is announced, and outages of storage or network stay as they were.

Source: Dong et al. 2025, detection by the first subsystem, path planning by the second.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.cluster import ClusterRef, ClusterSpec, ScaleOut
from windtunnel.specs.run import FailureCause, FailureProfile, RunSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique


def rerouted(cluster: ClusterSpec, routing: str, flows_per_port: int | None = None) -> ClusterSpec:
    """The cluster with another choice of paths; unchanged where no fabric is stated."""
    out = cluster.scale_out
    if out.fabric is None:
        return cluster
    change: dict[str, Any] = {"routing": routing}
    if flows_per_port is not None:
        change["flows_per_port"] = flows_per_port
    fabric = out.fabric.model_copy(update=change)
    return cluster.model_copy(update={"scale_out": out.model_copy(update={"fabric": fabric})})


def without_paths(scenario: Scenario) -> str | None:
    """Why there are no paths to choose; None where there are."""
    if not isinstance(scenario.cluster, ClusterRef):
        return None
    out = scenario.cluster.scale_out
    if not isinstance(out, ScaleOut) or out.fabric is None:
        return "cluster.scale_out.fabric is not stated, so that no flows meet"
    if out.topology not in ("fat-tree", "rail-optimised"):
        return f"a {out.topology} has one shortest path"
    return None


def _found_sooner(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
    """Causes that show in the timing of collectives, detected and located by it."""
    profile = run.failures
    assert isinstance(profile, FailureProfile)

    def sooner(cause: FailureCause) -> FailureCause:
        if cause.silent or cause.drains or cause.outage_s > 0:
            return cause
        detect, locate = min(cause.detect_s, knobs["detect_s"]), min(cause.diagnose_s, knobs["isolate_s"])
        return cause.model_copy(update={"detect_s": detect, "diagnose_s": locate})

    causes = tuple(sooner(cause) for cause in profile.causes)
    return run.model_copy(update={"failures": profile.model_copy(update={"causes": causes})})


TECHNIQUE = Technique(
    id="c4",
    knobs={
        "flows_per_port": Knob(None, 1, 64, "connections between two ports; absent: as the fabric has them"),
        "detect_s": Knob(30.0, 0.1, 3600.0, "seconds until the timing of collectives shows a fault", given=True),
        "isolate_s": Knob(300.0, 0.0, 86400.0, "seconds until the node is out of the job", given=True),
    },
    edits=(("plan", "paths"), ("run", "detection")),
    applies_to=without_paths,
    cluster=lambda cluster, knobs: rerouted(cluster, "planned", knobs["flows_per_port"]),
    run_section=_found_sooner,
    saves="scale-out",
)
