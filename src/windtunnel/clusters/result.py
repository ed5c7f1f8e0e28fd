"""What `windtunnel cluster` answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windtunnel.arrays import Floats
from windtunnel.clusters.event_loop.records import Segments
from windtunnel.clusters.fleets import FleetCourse
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.lost_time import LostTime
from windtunnel.clusters.metrics import Load, Spread
from windtunnel.clusters.power_course import PowerCourse
from windtunnel.clusters.room import Room
from windtunnel.versions import RESULT_SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterResult:
    """One run. Figures of jobs are of the measured ones, figures of the room of all."""

    scenario_name: str
    policy: str
    placement: str
    seed: int
    jobs: int
    """Measured."""
    jct_s: Spread
    """From submission to end."""
    makespan_s: float
    """From the first submission to the last end."""
    queue_s: Spread
    """Seconds without devices, before the first start and after preemptions."""
    utilisation: float
    """Busy share of devices over the makespan, overheads of starts included."""
    fragmentation: float
    """Share of devices over the makespan that idles while jobs wait."""
    fairness_mean: float
    fairness_worst: float
    deadlines_met: float | None
    """Share of jobs with a deadline that end by it; None: no job has one."""
    preemptions: int
    outage_kills: int
    """Stretches of running that failures ended."""
    lost: LostTime
    energy_kwh: float | None
    carbon_kg: float | None
    cost: float | None
    """US dollars of all devices over the makespan."""
    power_w: dict[str, float] | None
    pue: float
    """Power of the room over that of its devices, in `power_w`."""
    allocated_share: tuple[dict[str, float], ...]
    simulated_in_s: float
    events: int
    room: Room
    table: Jobs
    end_s: Floats
    first_start_s: Floats
    run_s: Floats
    segments: Segments
    load: Load
    feeds: PowerCourse | None = None
    """Rows of nodes under their feeds; None: there are none."""
    serving: tuple[FleetCourse, ...] = ()
    """Fleets next to the jobs."""
    assumed: tuple[tuple[str, str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    techniques: tuple[str, ...] = ()
    """Published systems that act on the jobs section."""
    citations: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "schema_version": RESULT_SCHEMA,
            "scenario": self.scenario_name,
            "policy": self.policy,
            "placement": self.placement,
            "jobs": self.jobs,
            "nodes": len(self.room.capacity),
            "devices": self.room.devices,
            "jct_s": self.jct_s.to_dict(),
            "makespan_s": self.makespan_s,
            "queue_s": self.queue_s.to_dict(),
            "utilisation": self.utilisation,
            "fragmentation": self.fragmentation,
            "finish_time_fairness": {"mean": self.fairness_mean, "worst": self.fairness_worst},
            "deadlines_met": self.deadlines_met,
            "preemptions": self.preemptions,
            "outage_kills": self.outage_kills,
            "device_time": self.lost.to_dict(),
            "energy_kwh": self.energy_kwh,
            "carbon_kg": self.carbon_kg,
            "cost": self.cost,
            "currency": "USD",
            "power_w": self.power_w,
            "feeds": None if self.feeds is None else self.feeds.to_dict(),
            "allocated_share": list(self.allocated_share),
            "serving": [one.to_dict() for one in self.serving],
            "seed": self.seed,
            "events": self.events,
            "simulated_in_s": self.simulated_in_s,
            "assumed": [{"field": f, "value": v, "why": w} for f, v, w in self.assumed],
            "warnings": list(self.warnings),
            "techniques": list(self.techniques),
            "citations": list(self.citations),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResult:
    """Pods that were placed one after the other and stay; what has no meaning for them is None in JSON."""

    scenario_name: str
    policy: str
    seed: int
    jobs: int
    """Pods that arrived."""
    refused: int
    """Pods without a node that could hold them."""
    nodes: int
    devices: int
    allocated_share: tuple[dict[str, float], ...]
    utilisation: float
    """Share of all GPUs that is allocated at the end."""
    fragmentation: float
    """Share of idle GPUs at the end that typical pods cannot use."""
    simulated_in_s: float
    warnings: tuple[str, ...] = ()
    techniques: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        of_jobs = ("jct_s", "makespan_s", "queue_s", "finish_time_fairness", "deadlines_met")
        of_time = ("energy_kwh", "carbon_kg", "cost", "power_w")
        return {
            "schema_version": RESULT_SCHEMA,
            "scenario": self.scenario_name,
            "policy": self.policy,
            "jobs": self.jobs,
            "refused": self.refused,
            "nodes": self.nodes,
            "devices": self.devices,
            "utilisation": self.utilisation,
            "fragmentation": self.fragmentation,
            "preemptions": 0,
            **dict.fromkeys((*of_jobs, *of_time)),
            "allocated_share": list(self.allocated_share),
            "seed": self.seed,
            "simulated_in_s": self.simulated_in_s,
            "warnings": list(self.warnings),
            "techniques": list(self.techniques),
            "citations": list(self.citations),
        }
