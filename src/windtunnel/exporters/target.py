"""What a launch target is: a writer of files for one training program, and the options that its version knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.registry import Registry

if TYPE_CHECKING:
    from windtunnel.errors import ProblemList
    from windtunnel.parallel.resolve import ResolvedPlan
    from windtunnel.training.step_setup import PreparedStep

_FLAGS = Path(__file__).with_name("flags")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionList:
    """The options that one version of a target publishes, read from `flags/<target>-<version>.yaml`.

    Other distributions add a list by an entry point `<target>-<version>` of the group `windtunnel.option_lists`, whose
    object is the path of the file.
    """

    target: str
    version: str
    source: str
    as_of: str
    kinds: dict[str, str]
    """Option → what it takes: `switch` nothing, `value` one word, `list` one word or more."""
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Option → the only words it accepts, where the target checks them."""
    models: tuple[dict[str, Any], ...] = ()
    """Models that the target brings along, with their sizes."""

    def refuses(self, option: str, *values: Any) -> str | None:
        """Why this version does not take the option with these values; None when it does."""
        kind = self.kinds.get(option)
        if kind is None:
            return f"{option} is not an option of {self.target} {self.version}"
        takes = {"switch": len(values) == 0, "value": len(values) == 1, "list": len(values) >= 1}
        if not takes[kind]:
            return f"{option} of {self.target} {self.version} is a {kind}, {len(values)} values were meant for it"
        for value in values:
            if option in self.choices and str(value) not in self.choices[option]:
                return f"{option} {value}: {self.target} {self.version} knows {', '.join(self.choices[option])}"
        return None


@dataclass(slots=True)
class Draft:
    """What a writer makes; the wrapper turns it into files. Everything that cannot be written goes to `unsupported`."""

    files: dict[str, str] = field(default_factory=dict)
    """Name → text of files next to the launcher."""
    environment: dict[str, str] = field(default_factory=dict)
    setup: list[str] = field(default_factory=list)
    """Lines of shell that run before the program: required variables, arrays of arguments."""
    program: str = ""
    """What torchrun starts, as shell words."""
    unsupported: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    misfits: list[str] = field(default_factory=list)
    """Memory that the plan needs and does not have."""

    def lacks(self, what: str) -> None:
        """Note once that the target has no word for something."""
        if what not in self.unsupported:
            self.unsupported.append(what)

    def recompute(self, plan: ResolvedPlan) -> UniformRecompute:
        """The plan's recomputation with one number of layers for all stages, which is all that targets know."""
        how, counts = plan.recompute, plan.recompute.num_layers
        if not isinstance(counts, tuple):
            return UniformRecompute(how.policy, how.modules, counts, how.early_stop)
        per_stage = plan.vpp if len(counts) == plan.pp * plan.vpp and plan.pp > 1 else 1
        if len(set(counts)) > 1:
            shown = " ".join(map(str, counts))
            self.lacks(f"recompute.num_layers {shown} by stage: one count for all; the largest is written")
        return UniformRecompute(how.policy, how.modules, max(counts) * per_stage, how.early_stop)

    def megatron_environment(self, prepared: PreparedStep) -> None:
        """Variables that Megatron-Core asks for: launch order next to tensor traffic, the allocator's segments."""
        plan = prepared.plan
        if (plan.tp > 1 or plan.cp > 1) and plan.zero < 2 and not plan.overlap_moe_a2a:
            self.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
        if prepared.training.expandable_segments:
            self.environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"


@dataclass(frozen=True, slots=True)
class UniformRecompute:
    """Recomputation with one number of layers for all stages."""

    policy: str
    modules: tuple[str, ...]
    num_layers: int | None
    early_stop: bool | None


@dataclass(frozen=True, slots=True)
class LaunchTarget:
    """One training program that plans are written for."""

    id: str
    title: str
    check: Callable[[PreparedStep, ProblemList], None]
    """Adds a problem for each number that the program would refuse when it starts."""
    write: Callable[[PreparedStep, OptionList], Draft]


TARGETS: Registry[LaunchTarget] = Registry("launch_targets", package="windtunnel.exporters.targets", noun="target")


@cache
def _lists() -> dict[str, Path]:
    """`<target>-<version>` → file of its option list; a file that comes with the package keeps its name."""
    from importlib.metadata import entry_points

    added = {one.name: Path(one.load()) for one in entry_points(group="windtunnel.option_lists")}
    return added | {path.stem: path for path in _FLAGS.glob("*.yaml")}


def versions(target: str) -> tuple[str, ...]:
    """Versions whose option list is stored, oldest first."""
    found = [version for name, _, version in (stem.rpartition("-") for stem in _lists()) if name == target]
    return tuple(sorted(found, key=lambda v: [int(part) if part.isdigit() else 0 for part in v.split(".")]))


@lru_cache(maxsize=16)
def options(target: str, version: str | None = None) -> OptionList:
    """The option list of a version; absent means the newest stored.

    Raises:
        BadInput: no list is stored for this version.
    """
    known = versions(target)
    chosen = version or (known[-1] if known else "")
    if chosen not in known:
        rule = f"no option list of {target} {chosen or '(any version)'}; known versions: {', '.join(known) or 'none'}"
        raise BadInput(Problem("target-version", rule, chosen, nearest=nearest_name(chosen, known)))
    data: dict[str, Any] = yaml.safe_load(_lists()[f"{target}-{chosen}"].read_text("utf-8"))
    kinds = {name: kind for kind, names in data["options"].items() for name in names}
    choices = {name: tuple(map(str, words)) for name, words in data.get("choices", {}).items()}
    models = tuple(data.get("models", ()))
    return OptionList(
        target=data["target"],
        version=data["version"],
        source=data["source"],
        as_of=data["as_of"],
        kinds=kinds,
        choices=choices,
        models=models,
    )
