"""Jobs as columns, in the order of their submission."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from windtunnel.arrays import Floats, Ints

LOWER = "jobs.generate.count, the rows of jobs.trace"
"""What makes the work of a cluster's loop less."""
_COLUMNS = (
    *("submit_s", "devices", "work_s", "deadline_s", "estimate_s", "watts", "cpus", "memory_bytes", "lines"),
    *("overhead_s", "priority", "steps", "spread_speed", "kind_speed", "stages_s", "iteration_s", "opportunistic"),
    "batch_size",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How jobs speed up as their batches grow: job × phase, phase 0 being the batch that a job begins with."""

    trigger_s: Floats
    """Work done at which the phase is due; infinite where a job has no such phase."""
    speed: Floats
    """Against phase 0."""
    batch: Floats
    """Against phase 0."""
    epoch_s: Floats
    """Work of an epoch of each job."""

    def only(self, rows: Ints) -> Growth:
        """Some of the jobs."""
        return Growth(
            trigger_s=self.trigger_s[rows], speed=self.speed[rows], batch=self.batch[rows], epoch_s=self.epoch_s[rows]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """One entry a job. Times are seconds; `submit_s` never falls."""

    submit_s: Floats
    devices: Ints
    """Devices that a job needs at once (a gang)."""
    work_s: Floats
    """Seconds that a job runs on its devices, packed on as few nodes as can hold it."""
    names: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    """Model or job type; empty where the trace has none."""
    users: tuple[str, ...] = ()
    deadline_s: Floats | None = None
    """Moment by which a job is to end; infinite where it has none."""
    estimate_s: Floats | None = None
    """What the user said that the job takes; None: `work_s`."""
    watts: Floats | None = None
    """Of one of its devices while it runs; NaN where the trace does not say."""
    cpus: Floats | None = None
    memory_bytes: Floats | None = None
    priority: Floats | None = None
    """Whole numbers, higher ones first; None: all 0."""
    scenarios: tuple[str, ...] = ()
    """Scenario file that says how fast each job runs; empty: none."""
    spread_speed: Floats | None = None
    """Speed on more nodes than a job needs, over that on the fewest; NaN: as `jobs.spread_speed` says."""
    kind_speed: Floats | None = None
    """Job × kind of device of the room: speed over that on the first kind."""
    file: str | None = None
    lines: Ints | None = None
    """Line of each job in `file`."""
    overhead_s: Floats | None = None
    """Of a start of each job, as the format implies."""
    overhead_at: str = "starts"
    steps: Floats | None = None
    """Steps of each job at the batch that it begins with; NaN of a job with a scenario whose time is stated."""
    modes: tuple[str, ...] = ()
    """How the batch of each job changes while it runs; empty where the trace does not say."""
    stages_s: Floats | None = None
    """Job × stage: seconds of an iteration that use storage and CPU, GPU, network, one after the other; or four."""
    iteration_s: Floats | None = None
    """Seconds of an iteration alone."""
    operations: tuple[tuple[float, ...], ...] = ()
    """Seconds of the operations of each job, in order; empty where the trace has none."""
    opportunistic: Ints | None = None
    """1 of a job that runs in what others leave."""
    batch_size: Floats | None = None
    """Samples of a step that a job was tuned for."""
    notes: tuple[tuple[str, str, str], ...] = field(default=())
    """(field, value, why) of what reading assumed."""

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def estimates(self) -> Floats:
        """What a scheduler expects each job to take."""
        return self.work_s if self.estimate_s is None else self.estimate_s

    def only(self, rows: Ints) -> Jobs:
        """Some of the jobs, in order."""
        own: dict[str, Any] = {
            name: None if (column := getattr(self, name)) is None else column[rows] for name in _COLUMNS
        }
        for name in ("names", "kinds", "users", "modes", "scenarios", "operations"):
            texts = getattr(self, name)
            own[name] = tuple(texts[i] for i in rows) if texts else ()
        return replace(self, **own)
