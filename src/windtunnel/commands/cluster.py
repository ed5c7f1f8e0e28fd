"""`cluster`: jobs that share a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT, Command, Draws, InSweeps, Listener, Question, with_snippet
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.clusters.result import ClusterResult, PodResult

SNIPPET = """\
jobs:
  generate:
    rate_per_hour: 10
    count: 100
    classes: [{name: tuning, share: 1, devices: 1, duration: 1 h}]
"""


@with_snippet(SNIPPET)
def run(
    source: Source, overrides: Sequence[str] = (), *, full: bool = True, listener: Listener = SILENT
) -> ClusterResult | PodResult:
    """Simulate jobs; see `windtunnel.clusters.simulate.simulate_cluster`."""
    from windtunnel.clusters.simulate import simulate_cluster

    del full, listener
    return simulate_cluster(source, overrides=tuple(overrides))


def _seed(question: Question) -> dict[str, Any]:
    return {"jobs.seed": question.number("jobs", "seed", 0) + 1 + (question.draw or 0)}


COMMANDS.add(
    "cluster",
    Command(
        id="cluster",
        needs=(("jobs",),),
        run=run,
        result="windtunnel.clusters.result:ClusterResult",
        view="cluster",
        figures=(
            "policy", "jobs", "jct_s", "makespan_s", "queue_s", "utilisation", "fragmentation", "finish_time_fairness",
            "preemptions", "energy_kwh", "cost", "power_w",
        ),
        main="jct_s",
        own_section="jobs",
        snippet=SNIPPET,
        draws=Draws(what="the seed of the jobs", settings=_seed),
        sweep=InSweeps(cell_cpu_s=1.0, objectives=("jct_s_mean", "cost")),
    ),
)  # fmt: skip
