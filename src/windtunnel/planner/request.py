"""What a user asks of the planner: a scenario with a search, and what the answer shall hold."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from pathlib import Path

from windtunnel.errors import SourceLines
from windtunnel.planner.deadline import Deadline
from windtunnel.planner.result import ReportProgress
from windtunnel.specs.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A loaded scenario, and what is asked about its search space."""

    scenario: Scenario
    lines: SourceLines | None = None
    """Where the scenario's fields were written, for messages."""
    folder: Path = field(default_factory=Path)
    """Relative paths of the scenario start here."""
    begun: float = field(default_factory=time.perf_counter)
    """When the request came in, on the clock of `time.perf_counter`, seconds."""
    free: bool = False
    """Also search the axes that the scenario's plan sets, and simulate that plan to compare with."""
    explain: bool | None = False
    """Also say why the best plan is the best; None: where the space is small enough."""
    stable: bool = False
    """Also say how far each resource of the cluster may change before another layout wins."""
    time_limit_s: float | None = None
    """Seconds on the wall after which the answer is given with what there is; None: none but the planner's own of a
    large space."""
    report: ReportProgress | None = None
    """Called as the search goes on."""

    def deadline(self, share: float = 1.0) -> Deadline:
        """When a share of the time limit is over, on the wall."""
        limit = math.inf if self.time_limit_s is None else self.time_limit_s
        return Deadline(time.perf_counter, self.begun + share * limit)
