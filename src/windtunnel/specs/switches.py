"""What a field of a plan or of the workload declares next to itself, so that nothing else lists it by hand.

A `Switch` stands in the annotation of its field. Warnings about settings without effect, the list of assumptions, the
key of the pricing cache, the axes of the planner, launch files and their imports are derived from it. Declarations are
data and small rules over plain values (`StepFacts`); they know nothing of what reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """Plain values of a resolved step that decide whether a setting acts."""

    model: str
    """Name of the model."""
    has_experts: bool
    has_decoder: bool
    """Whether the model has a decoder of its own next to an encoder."""
    framework: str
    release_note: str | None
    """Why the stated release of the framework changes nothing; None where it may."""
    precision: str
    phase: str
    compile_acts: bool
    """Whether `training.compile` changes the framework's kernels."""
    autocast: bool | None
    casts_weights: bool
    """Whether every pass casts the weights."""
    keeps_master_weights: bool
    """Whether the optimizer is one whose master weights are listed (Adam)."""
    has_lengths: bool
    """Whether `training.lengths` is given."""
    heterogeneous: bool
    """Whether the cluster has groups of unlike devices."""
    tp: int
    pp: int
    cp: int
    ep: int
    has_reduce_buckets: bool
    """Whether ZeRO copies gradients into buckets of a size of their own (DeepSpeed)."""
    gathers_in_buckets: bool
    """Whether ZeRO 1 and 2 of the framework shard the optimizer, so that updated weights are gathered in buckets."""
    replicas: int
    """Ranks that hold the same weights: dp · cp."""
    zero: int
    cp_kind: str
    dispatcher: str
    sends_once_per_node: bool
    """Whether the dispatcher sends a token once to each node, however many of its experts lie there."""
    shards_by_level: bool
    """Whether `plan.levels` acts."""
    overlap_grad_reduce: bool
    overlap_param_gather: bool
    averages_weights: bool
    """Whether `plan.local_steps` acts."""
    recompute: str
    """Policy of recomputation as it is written."""
    offloaded: frozenset[str]
    """Classes of tensors of which a share lives outside the device."""
    update_on_device: float


Reason = Callable[[StepFacts], str | None]
"""Why a field does nothing in a step, as the end of a sentence; None where it acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """How launch files state a switch whose value stands as it is, or that they cannot state it."""

    options: Mapping[str, str] = field(default_factory=dict)
    """Target → the option that takes the value. `import` reads the same options."""
    otherwise: str | Callable[[Any], tuple[str, ...]] = ""
    """What a target without an option does instead: a text with `{value}`, or what makes texts of the value."""
    usual: Any = None
    """Value with which nothing has to be said; empty values never have to be."""
    own_code: tuple[str, ...] = ()
    """Targets whose writer states the switch itself, because it depends on others."""

    @property
    def stands_alone(self) -> bool:
        """Whether the value is stated, or noted, without a look at other fields."""
        return bool(self.options or self.otherwise)

    def notes(self, value: Any) -> tuple[str, ...]:
        """What a target without an option cannot express."""
        if callable(self.otherwise):
            return self.otherwise(value)
        return (self.otherwise.format(value=value),) if self.otherwise else ()


WRITTEN_BY_TARGETS = Export()
"""Each target's writer states the field in its own words, because it depends on other fields."""
NOT_LAUNCHED = Export()
"""The field describes what is simulated; nothing in a launch file stands for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """That results list the value which was taken where the field is left open."""

    origin: str
    """Whose default it is; `{framework}` is replaced."""
    when: Callable[[StepFacts], bool] = lambda facts: True
    """Whether the field acts, so that its default is worth a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Declaration of one field."""

    exported: Export
    """How launch files state it."""
    ignored_when: Reason | None = None
    """Why it does nothing; absent: it always acts."""
    framework_default: str | None = None
    """Field of the framework's behaviour that decides where the switch is absent (`catalog/coefficients/*.yaml`)."""
    assumed: Assumed | None = None
    """Absent: its default is not listed among the assumptions."""
    block_prices: bool = True
    """Whether the price of a block can depend on it; a field counts until it says that it does not."""
    resolved_as: str | None = None
    """Field of the resolved plan that it decides, where that has another name."""
    axis: Literal["layout", "policy"] | None = None
    """How `plan` searches it: `layout`, it changes shapes and groups; `policy`, it changes how they are used."""
    free_search: bool = False
    """Whether a search that is free of the written plan chooses it anew."""
    listed_when_absent: bool = True
    """Whether results have its key where it is absent."""


@cache
def switches_of(record: type[BaseModel]) -> dict[str, Switch]:
    """Field → its declaration, in the order of the record; a field without one is left out."""
    found: dict[str, Switch] = {}
    for name, info in record.model_fields.items():
        declared = [item for item in info.metadata if isinstance(item, Switch)]
        if declared:
            found[name] = declared[0]
    return found


def searched(record: type[BaseModel]) -> tuple[str, ...]:
    """Fields of a record that a search varies."""
    return tuple(name for name, switch in switches_of(record).items() if switch.axis is not None)


def ignored_fields(record: BaseModel | None, facts: StepFacts) -> Iterator[tuple[str, str]]:
    """Fields that were written down and do nothing in a step, each with the reason."""
    if record is None:
        return
    for name, switch in switches_of(type(record)).items():
        written = name in record.model_fields_set and getattr(record, name) is not None
        if written and switch.ignored_when is not None:
            reason = switch.ignored_when(facts)
            if reason:
                yield name, reason


def open_fields(record: BaseModel, facts: StepFacts) -> Iterator[tuple[str, Assumed]]:
    """Fields that were left open and act in a step, each with whose default was taken."""
    for name, switch in switches_of(type(record)).items():
        if switch.assumed is None or not switch.assumed.when(facts):
            continue
        default = type(record).model_fields[name].default
        left_open = (
            getattr(record, name) == default if default in (None, "auto") else name not in record.model_fields_set
        )
        if left_open:
            yield name, switch.assumed


def first(*rules: Reason) -> Reason:
    """The first reason that holds."""
    return lambda facts: next((why for rule in rules if (why := rule(facts))), None)


def no_experts(facts: StepFacts) -> str | None:
    """Dense models have no experts."""
    return None if facts.has_experts else f"{facts.model} has no experts"


def tp_is_1(facts: StepFacts) -> str | None:
    """There is no tensor axis."""
    return "tp is 1" if facts.tp == 1 else None


def pp_is_1(facts: StepFacts) -> str | None:
    """There is no pipeline."""
    return "pp is 1" if facts.pp == 1 else None


def cp_is_1(facts: StepFacts) -> str | None:
    """There is no context axis."""
    return "cp is 1" if facts.cp == 1 else None


def not_fsdp(facts: StepFacts) -> str | None:
    """Parameters are not sharded."""
    return None if facts.zero == 3 else f"it is a switch of FSDP (zero 3), and zero is {facts.zero}"


def by_layer(facts: StepFacts) -> str | None:
    """FSDP has no buckets and no switch of its own for reductions and gathers."""
    return "zero 3 gathers and reduces layer by layer" if facts.zero == 3 else None


def no_buckets(facts: StepFacts) -> str | None:
    """Gradients and parameters do not travel in buckets, and none take memory."""
    if facts.has_reduce_buckets:
        return None
    if (layerwise := by_layer(facts)) is not None:
        return layerwise
    if facts.replicas == 1:
        return "there is one replica, and nothing is reduced"
    if facts.averages_weights:
        return "replicas average their weights and reduce no gradients (local_steps)"
    if facts.overlap_grad_reduce or (facts.overlap_param_gather and facts.gathers_in_buckets):
        return None
    return "gradients are reduced in one piece after the last backward (overlap.grad_reduce is false)"


def not_offloaded(*classes: str, why: str) -> Reason:
    """None of some classes of tensors lives outside the device."""
    return lambda facts: None if facts.offloaded & {*classes} else why


def always(why: str) -> Reason:
    """The field never acts."""
    return lambda facts: why
