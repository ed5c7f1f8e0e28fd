"""What `plan` may choose from, what it should make best, and what it must not exceed."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from windtunnel.errors import Problem, nearest_name
from windtunnel.specs.base import Bytes, Count, Inconsistent, Seconds, Spec, Watts, quantity
from windtunnel.specs.plan import Axis, Layers, Recompute, each_axis_once, is_layer_list
from windtunnel.specs.serving import CacheFormat, Engine, WeightFormat
from windtunnel.specs.workload import Precision

Objective = Literal[
    "step_time",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "cost_per_million_tokens",
    "cost_per_trillion_tokens",
    "energy_per_million_tokens",
    "power",
    "memory_headroom",
    "time_to_tokens",
    "cost",
    "days",
    "run_cost",
    "carbon_kg",
    "devices",
    "cost_per_hour",
    "goodput",
    "tokens_per_s_per_user",
    "accuracy",
    "cost_per_task",
    "joules_per_task",
    "latency_p50_s",
    "latency_p99_s",
]
"""What can be made best or limited: `planner.objectives` and, of serving, `planner.serving.objectives` say what each
is; those of `target: programs` are figures of `windtunnel reason`."""
PROGRAMS_OBJECTIVES = ("accuracy", "cost_per_task", "joules_per_task", "latency_p50_s", "latency_p99_s")
"""Objectives of `target: programs`: share of problems that end right; the others count whole problems."""
SERVING_OBJECTIVES = (
    "devices",
    "cost_per_hour",
    "cost_per_million_tokens",
    "energy_per_million_tokens",
    "power",
    "goodput",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "tokens_per_s_per_user",
)
"""Objectives of `target: serving`; tokens are generated tokens."""
ONLY_SERVING = ("cost_per_hour", "goodput", "tokens_per_s_per_user")
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
OnOff = tuple[bool, ...]
Stage = Annotated[int, Field(ge=0, le=3)]
Share = Annotated[float, Field(ge=0, le=1)]
Number = Annotated[float, quantity("1")]
Joules = Annotated[float, quantity("J")]
Price = Annotated[float, Field(gt=0)]


SERVING_AXES = (
    "dp",
    "replicas",
    "max_num_seqs",
    "max_num_batched_tokens",
    "engine",
    "weights",
    "kv_cache",
    "deployment",
    "rate_per_s",
    "concurrency",
)
"""Axes that only `target: serving` has."""


class Space(Spec):
    """Values that each axis of a plan may take. Absent: every legal value.

    `docs/guide/plan-training.md` lists the defaults.
    """

    device: tuple[str, ...] | None = None
    """Device types to choose from, by catalogue id; absent: the cluster's own."""
    nodes: tuple[Count, ...] | None = None
    """Numbers of nodes to choose from; absent: the cluster's own."""
    spares: tuple[Annotated[int, Field(ge=0, le=10**6)], ...] | None = None
    """Numbers of hot spares to choose from, for objectives of the whole run; absent: `run.recovery.spares`."""
    precision: tuple[Precision, ...] | None = None
    """Training precisions to choose from; absent: the one of `training`."""
    tp: tuple[Count, ...] | None = None
    """Tensor parallel ranks."""
    sp: OnOff | None = None
    """Sequence parallelism beside tensor parallelism, on or off."""
    pp: tuple[Count, ...] | None = None
    """Pipeline stages."""
    vpp: tuple[Count, ...] | None = None
    """Virtual stages (chunks of layers) a pipeline stage."""
    cp: tuple[Count, ...] | None = None
    """Context parallel ranks."""
    cp_kind: tuple[Literal["ring", "all_to_all", "hybrid", "all_gather", "token_ring"], ...] | None = None
    """How context parallel ranks exchange keys and values."""
    cp_all_to_all: tuple[Count, ...] | None = None
    """`hybrid`: ranks that exchange all-to-all inside a ring."""
    ep: tuple[Count, ...] | None = None
    """Expert parallel ranks."""
    etp: tuple[Count, ...] | None = None
    """Ranks that cut one expert."""
    mbs: tuple[Count, ...] | None = None
    """Sequences of a micro-batch."""
    zero: tuple[Stage, ...] | None = None
    """Stages of ZeRO."""
    reshard_after_forward: OnOff | None = None
    """ZeRO 3: whether gathered weights are let go after the forward pass."""
    shard_group: tuple[Count | Literal["all"], ...] | None = None
    """Ranks of a shard group; `all`: every replica, as without a group."""
    schedule: tuple[str, ...] | None = None
    """Pipeline schedules, by id."""
    stage_layers: tuple[Literal["even", "balanced"] | tuple[Layers, ...], ...] | None = None
    """Layers of each virtual stage: `even` as the framework splits them, `balanced` so that the slowest stage is
    fastest, or written out. Absent: what the plan says, else even."""
    recompute: tuple[str | Recompute, ...] | None = None
    """Policies by name (none, selective, full, or `full:4` for four layers a stage), or written out; `balanced`
    (`balanced:selective`): on each stage as many layers as memory asks for, and no more."""
    offload_activations: tuple[Share, ...] | None = None
    """Shares of the activations that go to the host."""
    offload_optimizer: tuple[Share, ...] | None = None
    """Shares of the optimizer's state that live on the host."""
    offload_params: tuple[Share, ...] | None = None
    """Shares of the weights that live on the host."""
    overlap_grad_reduce: OnOff | None = None
    """Reductions of gradients beside the backward pass, on or off."""
    overlap_param_gather: OnOff | None = None
    """Gathering updated weights beside the forward pass, on or off."""
    overlap_tp: OnOff | None = None
    """Exchanges of tensor parallelism beside products, on or off."""
    overlap_p2p: OnOff | None = None
    """Messages between stages beside computation, on or off."""
    overlap_moe_a2a: OnOff | None = None
    """Exchanges between experts beside computation, on or off."""
    group_axis: tuple[Literal["dp", "pp"], ...] | None = None
    """Axes that may cross groups of unlike devices."""
    order: tuple[tuple[Axis, ...], ...] | None = None
    """Orders of axes over the devices, the innermost first."""
    dp: tuple[Count, ...] | None = None
    """Serving: ranks of attention data parallelism."""
    replicas: tuple[Count, ...] | None = None
    """Serving: instances; absent: as many as fit, or every number of them where the load is given."""
    max_num_seqs: tuple[Count, ...] | None = None
    """Serving: most sequences of a batch."""
    max_num_batched_tokens: tuple[Count, ...] | None = None
    """Serving: most tokens of a batch."""
    engine: tuple[Engine, ...] | None = None
    """Serving: engines."""
    weights: tuple[WeightFormat, ...] | None = None
    """Serving: formats of weights."""
    kv_cache: tuple[CacheFormat, ...] | None = None
    """Serving: formats of cached keys and values."""
    deployment: tuple[Literal["aggregated", "disaggregated"], ...] | None = None
    """Serving: prompts and answers on the same instances, or on pools of their own; absent: aggregated."""
    rate_per_s: tuple[Price, ...] | None = None
    """Serving: arrival rates to choose from; absent: the traffic's, or, where the objective is how much can be served,
    every load of a grid."""
    concurrency: tuple[Count, ...] | None = None
    """Serving, closed loop: requests in flight, of all instances together."""

    @field_validator("*")
    @classmethod
    def _some(cls, value: Any) -> Any:
        if value == ():
            raise ValueError("must list at least one value")
        return value

    @field_validator("stage_layers", mode="before")
    @classmethod
    def _splits(cls, value: Any) -> Any:
        for split in value if isinstance(value, list | tuple) else ():
            if split not in ("even", "balanced") and not is_layer_list(split):
                raise ValueError(f"{split}: must be even, balanced, or layers of each virtual stage, none negative")
        return value

    @field_validator("recompute")
    @classmethod
    def _policies(cls, value: Any) -> Any:
        for policy in value or ():
            if isinstance(policy, str):
                recompute_of(policy)
        return value

    @field_validator("order")
    @classmethod
    def _orders(cls, value: Any) -> Any:
        for order in value or ():
            each_axis_once(order)
        return value


def is_balanced(policy: str | Recompute) -> bool:
    """Whether the number of layers that recompute is left to the planner."""
    return policy in ("balanced", "balanced:full", "balanced:selective")


def recompute_of(policy: str | Recompute) -> Recompute:
    """`full:4` → full, on four layers a stage; of a balanced policy, what its layers do.

    Raises:
        ValueError: not a policy.
    """
    if isinstance(policy, Recompute):
        return policy
    if is_balanced(policy):
        return Recompute(policy=policy.partition(":")[2] or "full")
    name, _, layers = policy.partition(":")
    if name not in ("none", "selective", "full") or (layers and not layers.isdigit()):
        rule = "must be none, selective or full, with `:N` for N layers a stage, balanced, balanced:selective"
        raise ValueError(f"{policy}: {rule}, or a mapping")
    return Recompute(policy=name, num_layers=int(layers) if layers else None)


class Limits(Spec):
    """What a plan must keep to: upper bounds, lower ones where more is better. Device memory is always a limit."""

    memory_fraction: float = Field(default=0.95, gt=0, le=1)
    """Share of device memory that reserved memory may take: a caching allocator that comes nearer to all of it frees
    and asks again, and predictions of reserved memory are some per cent off. 1: all of it."""
    step_time: Seconds | None = Field(default=None, gt=0)
    """Seconds of a training step."""
    tokens_per_s: Number | None = Field(default=None, gt=0)
    """Lower bound of the rate of all devices together."""
    tokens_per_s_per_device: Number | None = Field(default=None, gt=0)
    """Lower bound of the rate of one device."""
    cost_per_million_tokens: float | None = Field(default=None, gt=0)
    """US dollars a million tokens."""
    cost_per_trillion_tokens: float | None = Field(default=None, gt=0)
    """US dollars a trillion tokens."""
    energy_per_million_tokens: Joules | None = Field(default=None, gt=0)
    """Energy of a million tokens."""
    power: Watts | None = Field(default=None, gt=0)
    """Mean draw of all devices together."""
    memory_headroom: Bytes | None = None
    """Lower bound of the device memory that is not reserved."""
    time_to_tokens: Seconds | None = Field(default=None, gt=0)
    """Time until `search.tokens` are trained, without failures."""
    cost: float | None = Field(default=None, gt=0)
    """US dollars of `search.tokens`, without failures."""
    days: float | None = Field(default=None, gt=0)
    """Of the whole run, failures included."""
    run_cost: float | None = Field(default=None, gt=0)
    """US dollars of the whole run, failures included."""
    carbon_kg: float | None = Field(default=None, gt=0)
    """Kilograms of CO₂ of the whole run."""
    devices: Count | None = None
    """Devices in all."""
    cost_per_hour: float | None = Field(default=None, gt=0)
    """Serving: price of all devices."""
    tokens_per_s_per_user: Number | None = Field(default=None, gt=0)
    """Serving: lower bound of the inverse of the median TPOT."""
    accuracy: Share | None = None
    """Programs: lower bound of the share of problems that end right."""
    cost_per_task: float | None = Field(default=None, gt=0)
    """Programs: USD a problem."""
    joules_per_task: Joules | None = Field(default=None, gt=0)
    """Programs: of all devices, a problem."""
    latency_p50_s: Seconds | None = Field(default=None, gt=0)
    """Programs: median seconds of a whole problem."""
    latency_p99_s: Seconds | None = Field(default=None, gt=0)
    """Programs: seconds that 99 of 100 problems keep."""


class SearchSpec(Spec):
    """`search:` of a scenario. An axis set in `plan` is pinned unless `space` lists it."""

    target: Literal["training", "serving", "programs"] = "training"
    """What is chosen; `programs` where the first objective is one of theirs (accuracy, cost_per_task …)."""
    objective: Objective | tuple[Objective, ...] = "step_time"
    """One, or two or three: then every plan that no other beats in all of them is found, and the first decides."""
    limits: Limits = Limits()
    """What every plan has to keep."""
    tokens: Number | None = Field(default=None, gt=0)
    """Tokens of the whole run; absent: those of `run`. For `time_to_tokens` and `cost`, which know no failures, and for
    `days`, `run_cost` and `carbon_kg`, which take the run's failures, saves and spares (a run's defaults without a
    `run` section)."""
    prices: dict[str, Price] = {}
    """Device → money an hour; absent: the cluster's, then the catalogue's."""
    space: Space = Space()
    """Values that axes may take; absent: every legal one."""
    top: Count = 10
    """Plans of the table."""
    slo_at: Literal["central", "upper"] = "upper"
    """Serving: whether a plan has to keep the objective at the upper end of the prediction's interval too. Where none
    does, the best at the central prediction is taken, and said to be so."""

    @field_validator("objective", mode="before")
    @classmethod
    def _one_to_three(cls, value: Any) -> Any:
        names = list(value) if isinstance(value, list | tuple) else [value]
        for name in names:
            if name not in OBJECTIVES:
                near = nearest_name(str(name), OBJECTIVES)
                hint = f"; did you mean '{near}'?" if near else ""
                raise ValueError(f"'{name}' is no objective; known are {', '.join(OBJECTIVES)}{hint}")
        if not 1 <= len(names) <= 3 or len({*names}) < len(names):
            raise ValueError("must be one objective, or two or three different ones")
        return names[0] if len(names) == 1 else tuple(names)

    @model_validator(mode="before")
    @classmethod
    def _programs_by_objective(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "target" in given:
            return given
        own = given.get("objective")
        first = own[0] if isinstance(own, list | tuple) and own else own
        return {**given, "target": "programs"} if first in PROGRAMS_OBJECTIVES else given

    @model_validator(mode="after")
    def _of_the_target(self) -> SearchSpec:
        """Names that the target does not know, all at once."""
        problems = []
        limits = {name for name in self.limits.model_fields_set if getattr(self.limits, name) is not None}
        if self.target == "training":
            for name in (*self.objectives, *sorted(limits)):
                if name in (*ONLY_SERVING, *PROGRAMS_OBJECTIVES):
                    field = "objective" if name in self.objectives else f"limits.{name}"
                    of = "serving" if name in ONLY_SERVING else "programs"
                    problems.append(Problem(field, f"is for target {of}", value=name))
            for name in SERVING_AXES:
                if getattr(self.space, name) is not None:
                    problems.append(Problem(f"space.{name}", "is an axis of target serving"))
        elif self.target == "programs":
            problems += self._of_programs(limits)
        else:
            allowed = f"with target serving must be one of {', '.join(SERVING_OBJECTIVES)}"
            if "objective" in self.model_fields_set:
                problems += [Problem("objective", allowed, n) for n in self.objectives if n not in SERVING_OBJECTIVES]
            for name in sorted(limits - {*SERVING_OBJECTIVES, "memory_fraction"}):
                problems.append(Problem(f"limits.{name}", "is no limit of target serving"))
            shared = {"device", "tp", "pp", "ep", *SERVING_AXES}
            for name in sorted(n for n in self.space.model_fields_set if getattr(self.space, n) is not None):
                if name not in shared:
                    problems.append(Problem(f"space.{name}", "is no axis of target serving"))
        if problems:
            raise Inconsistent(problems)
        return self

    def _of_programs(self, limits: set[str]) -> list[Problem]:
        """What `windtunnel reason` does not choose by."""
        allowed = f"with target programs must be one of {', '.join(PROGRAMS_OBJECTIVES)}"
        problems = [Problem("objective", allowed, n) for n in self.objectives if n not in PROGRAMS_OBJECTIVES]
        for name in sorted(limits - {*PROGRAMS_OBJECTIVES, "memory_fraction"}):
            problems.append(Problem(f"limits.{name}", "is no limit of target programs"))
        for name in sorted(n for n in self.space.model_fields_set if getattr(self.space, n) is not None):
            rule = "is no axis of target programs: list values of a strategy's knobs, or programs.models"
            problems.append(Problem(f"space.{name}", rule))
        return problems

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """All objectives, the deciding one first."""
        return (self.objective,) if isinstance(self.objective, str) else self.objective
