"""What `c4.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.cluster import ClusterRef, ClusterSpec, ScaleOut
from windtunnel.specs.run import FailureCause, FailureProfile, RunSpec
from windtunnel.specs.scenario import Scenario


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


def run_section(run: RunSpec, scenario: Scenario, knobs: dict[str, Any]) -> RunSpec:
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


applies_to = without_paths


def cluster(cluster: ClusterSpec, knobs: dict[str, Any]) -> ClusterSpec:
    return rerouted(cluster, "planned", knobs["flows_per_port"])
