"""Whether a training plan fits in the memory of its devices, and the nearest plans that do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from windtunnel.errors import BadInput
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.stacks.defaults import Setting
from windtunnel.stacks.rules import cannot_run, runnable
from windtunnel.techniques.base import Applied
from windtunnel.training.prepare_step import prepare
from windtunnel.training.simulate_step import memory_of
from windtunnel.training.step_setup import PreparedStep
from windtunnel.versions import RESULT_SCHEMA


@dataclass(frozen=True, slots=True)
class FitChange:
    """A setting that makes a plan fit."""

    settings: tuple[str, ...]
    """`path=value`, as `--set` takes them."""
    devices: int
    """The scenario's own number where it suffices, else the smallest larger number by whole replicas."""


_FIT_CHANGES: tuple[dict[str, Any], ...] = (
    {"recompute": {"policy": "selective"}},
    {"recompute": {"policy": "full"}},
    {"zero": 3},
    {"zero": 3, "recompute": {"policy": "full"}},
    {"offload": {"optimizer": 1.0}},
    {"zero": 3, "recompute": {"policy": "full"}, "offload": {"optimizer": 1.0}},
)
"""Changes of a plan that `fit` tries, the mildest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """Whether a plan fits, and the nearest ones that do. Bytes and counts."""

    fits: bool
    reserved_bytes: float
    capacity_bytes: float
    over_bytes: float
    stage: int
    at_peak: dict[str, float]
    largest_mbs: int | None
    """Largest micro-batch that fits at this global batch, None when none does."""
    fewest_devices: int | None
    """Smallest number of devices on which the plan's tp, pp and cp fit, by whole data-parallel replicas."""
    fit_probability: float | None = None
    """How likely the reserved peak stays within the device's memory, from residuals of measured peaks."""
    host_bytes: float = 0.0
    """What one device keeps in host memory by offloading."""
    changes: tuple[FitChange, ...] = ()
    """Settings with which the plan fits, and on how many devices; empty where the scenario's own plan fits."""
    not_runnable: tuple[str, ...] = ()
    """One line for each stated value that the framework's release cannot run."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        found = {"schema_version": RESULT_SCHEMA} | asdict(self)
        return found if self.not_runnable else {k: v for k, v in found.items() if k != "not_runnable"}


@dataclass(frozen=True, slots=True)
class _Question:
    """A prepared step, and how its memory changes with the micro-batch, the devices and the plan."""

    prepared: PreparedStep
    plan: PlanSpec
    """Plan as the scenario has it: axes that it leaves open are decided again for every number of devices."""
    techniques: tuple[Applied, ...]

    def fits(self, cluster: ClusterSpec, mbs: int, global_batch: int, plan: PlanSpec) -> bool:
        """Tell whether the step fits on a cluster with this micro-batch, batch and plan, all in sequences."""
        changes = {"mbs": mbs, "dp": "auto", "shard_group": None}
        training = self.prepared.training.model_copy(update={"global_batch": global_batch})
        try:
            other = prepare(self.prepared.model, cluster, training, plan.model_copy(update=changes), self.techniques)
        except BadInput:
            return False
        return memory_of(other).fits

    def fits_on(self, devices: int, plan: PlanSpec) -> bool:
        """Tell whether a plan fits on a number of devices, with as many micro-batches a replica as it has now."""
        now = self.prepared
        per_node = min(now.cluster.devices_per_node, devices)
        if devices % per_node:
            return False
        cluster = now.cluster.model_copy(update={"nodes": max(1, devices // now.cluster.devices_per_node)})
        cluster = cluster.model_copy(update={"devices_per_node": per_node})
        replicas = devices // self.devices_of_a_replica
        return self.fits(cluster, plan.mbs, replicas * plan.mbs * now.plan.m, plan)

    @property
    def devices_of_a_replica(self) -> int:
        """Product of the tensor, pipeline and context axes."""
        plan = self.prepared.plan
        return plan.tp * plan.pp * plan.cp

    def device_counts(self) -> list[int]:
        """Whole replicas, doubled up to 64 times the scenario's devices."""
        counts, count = [], self.devices_of_a_replica
        while count <= max(self.prepared.cluster.num_devices, self.devices_of_a_replica) * 64:
            counts.append(count)
            count *= 2
        return counts

    def not_runnable(self, plan: PlanSpec) -> tuple[str, ...]:
        """What the framework's release cannot run of a plan."""
        training = self.prepared.training
        setting = Setting.of(training, self.prepared.cluster.device, self.prepared.model)
        return cannot_run(plan, training, runnable(training.framework, training.framework_version, setting))

    def largest_mbs(self) -> int | None:
        """Largest micro-batch that fits at the scenario's global batch; None when none does."""
        now = self.prepared
        batch = now.training.global_batch
        sequences = batch // now.plan.dp
        sizes = [mbs for mbs in range(1, min(sequences, 256) + 1) if sequences % mbs == 0]
        return _last_true(sizes, lambda mbs: self.fits(now.cluster, mbs, batch, self.plan))

    def changes(self) -> list[FitChange]:
        """Changes of the plan that make it fit, up to the first that does on the devices there are."""
        now, found = self.prepared, list[FitChange]()
        for change in _FIT_CHANGES:
            plan = type(self.plan).model_validate(self.plan.model_dump(exclude_unset=True) | change)
            if set(self.not_runnable(plan)) - set(self.not_runnable(self.plan)):
                continue
            if self.fits(now.cluster, self.plan.mbs, now.training.global_batch, plan):
                return [*found, FitChange(_settings(change), now.cluster.num_devices)]
            larger = (count for count in self.device_counts() if count > now.cluster.num_devices)
            count = next((count for count in larger if self.fits_on(count, plan)), None)
            if count is not None and all(count < one.devices for one in found):
                found.append(FitChange(_settings(change), count))
        return found


def memory_fit(prepared: PreparedStep, plan: PlanSpec, techniques: tuple[Applied, ...]) -> FitResult:
    """Compare the peak memory of a step with its devices' memory, and look for the nearest plans that fit.

    Args:
        prepared: the step.
        plan: the plan as the scenario has it.
        techniques: applied ones.
    """
    memory, question = memory_of(prepared), _Question(prepared, plan, techniques)
    return FitResult(
        fits=memory.fits,
        reserved_bytes=memory.peak_reserved_bytes,
        capacity_bytes=memory.capacity_bytes,
        over_bytes=max(memory.peak_reserved_bytes - memory.capacity_bytes, 0.0),
        stage=memory.stage,
        at_peak=memory.at_peak,
        largest_mbs=question.largest_mbs(),
        fewest_devices=next((count for count in question.device_counts() if question.fits_on(count, plan)), None),
        fit_probability=memory.fit_probability,
        host_bytes=memory.host_bytes,
        changes=() if memory.fits else tuple(question.changes()),
        not_runnable=question.not_runnable(plan),
    )


def _settings(change: dict[str, Any]) -> tuple[str, ...]:
    """A change of a plan as `--set` takes it."""
    return tuple(
        f"plan.{field}.{name}={value:g}" if isinstance(value, float) else f"plan.{field}={value}"
        for field, own in change.items()
        for name, value in (own.items() if isinstance(own, dict) else [("", own)])
    )


def _last_true(values: list[int], test: Callable[[int], bool]) -> int | None:
    """Largest value that passes a monotone test, by bisection."""
    low, high, best = 0, len(values) - 1, None
    while low <= high:
        middle = (low + high) // 2
        if test(values[middle]):
            best, low = values[middle], middle + 1
        else:
            high = middle - 1
    return best
