"""A plan as files that start training or servers: `export` is the entry point, targets are found by the registry.

What a target cannot express is written as a comment into every file and returned; nothing is dropped silently. Numbers
that the target would refuse when it starts are refused here, all at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from windtunnel.errors import BadInput, Problem, ProblemList, nearest_name
from windtunnel.exporters import wrappers
from windtunnel.exporters.groups import one_launch
from windtunnel.exporters.servers.launch import check_wrapper, server_files
from windtunnel.exporters.servers.target import SERVER_TARGETS
from windtunnel.exporters.switches import write_switches
from windtunnel.exporters.target import TARGETS, options
from windtunnel.files.writing import not_written, write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windtunnel.scenarios.source import Source
    from windtunnel.training.step_setup import PreparedStep

GIB = 2**30
Wrapper = Literal["torchrun", "none", "slurm", "kubernetes"]


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    files: tuple[Path, ...]
    """The file to start first; the ones it reads after it."""
    unsupported: tuple[str, ...]
    """What the target has no word for, also written into the files."""
    notes: tuple[str, ...]
    misfits: tuple[str, ...] = ()
    """Memory that the plan needs and does not have, also written into the files."""

    def to_dict(self) -> dict[str, list[str]]:
        """Plain data for `--json`."""
        files = [str(path) for path in self.files]
        return {
            "files": files,
            "does_not_fit": list(self.misfits),
            "unsupported": list(self.unsupported),
            "notes": list(self.notes),
        }


def export(
    prepared_or_scenario: PreparedStep | Source,
    target: str,
    version: str | None,
    folder: Path,
    wrapper: Wrapper = "torchrun",
    *,
    overrides: Sequence[str] = (),
) -> Exported:
    """Write launch files of a plan for one training program or serving engine.

    Args:
        prepared_or_scenario: a prepared step, or a scenario (file, mapping or `Scenario`) to prepare.
        target: `megatron`, `torchtitan`, … (`list_targets()`); `vllm`, … (`list_server_targets()`) for `serving:`.
        version: of the target; absent means the newest whose option list is stored.
        folder: created when absent; files of the same name are replaced.
        wrapper: who puts the script on the nodes: `torchrun` (servers: `none`), `slurm`, `kubernetes`.
        overrides: `key=value` settings for a scenario.

    Raises:
        BadInput: unknown target, version or wrapper; a scenario that cannot run; numbers that the target refuses.
    """
    from windtunnel.training.step_setup import PreparedStep

    _check_request(target, version, wrapper)
    if target in SERVER_TARGETS:
        assert not isinstance(prepared_or_scenario, PreparedStep), "a training step is no deployment"
        made, noted = server_files(prepared_or_scenario, target, version, check_wrapper(wrapper), overrides)
        return Exported(_write(folder, made), tuple(noted.unsupported), tuple(noted.notes))
    prepared, name, techniques = _prepared(prepared_or_scenario, overrides)
    simulated = prepared
    prepared, order = one_launch(prepared)
    launch, known = TARGETS.get(target), options(target, version)
    problems = ProblemList()
    launch.check(prepared, problems)
    problems.raise_if_any()
    draft = launch.write(prepared, known)
    draft.notes += order
    draft.misfits = _misfits(simulated)
    for technique in techniques:
        draft.lacks(f"technique {technique}: {_by_hand(technique, launch.id)}")
    write_switches(prepared, launch.id, draft)
    title = f"{launch.title} {known.version}: {name} on {prepared.cluster.num_devices} devices"
    script = f"{launch.id}.sh"
    texts = {script: wrappers.node_script(title, draft, prepared.cluster), **draft.files}
    job = wrappers.object_name(f"{launch.id}-{name}")
    if wrapper == "slurm":
        batch = wrappers.slurm(title, script, job, draft, prepared.cluster)
        texts = {f"{launch.id}.sbatch": batch, **texts}
    elif wrapper == "kubernetes":
        objects = wrappers.kubernetes(title, script, job, draft, texts, prepared.cluster)
        texts = {f"{launch.id}-job.yaml": objects, **texts}
    return Exported(_write(folder, texts), tuple(draft.unsupported), tuple(draft.notes), tuple(draft.misfits))


def _misfits(prepared: PreparedStep) -> list[str]:
    """What the step needs beyond the memory of its devices and of the tiers that tensors are offloaded to."""
    from windtunnel.training.simulate_step import memory_of

    memory = memory_of(prepared)
    needed = [("device memory", memory.peak_reserved_bytes, memory.capacity_bytes), *memory.overfull]
    return [
        f"{name}: {size / GIB:.1f} GiB a device of {room / GIB:.1f} GiB, {(size - room) / GIB:.1f} GiB too much"
        for name, size, room in needed
        if size > room
    ]


def _check_request(target: str, version: str | None, wrapper: str) -> None:
    """Refuse what no file can be written for.

    Raises:
        BadInput: unknown target, version or wrapper.
    """
    problems = ProblemList()
    if target not in (known_targets := (*list_targets(), *list_server_targets())):
        rule = f"must be one of {', '.join(known_targets)}"
        problems.extend([Problem("target", rule, target, nearest=nearest_name(target, known_targets))])
    elif version is not None:
        try:
            options(target, version)
        except BadInput as error:
            problems.extend(error.problems)
    if target not in SERVER_TARGETS and wrapper not in wrappers.WRAPPERS:
        rule = f"must be one of {', '.join(wrappers.WRAPPERS)}"
        problems.extend([Problem("wrapper", rule, wrapper, nearest=nearest_name(wrapper, wrappers.WRAPPERS))])
    problems.raise_if_any()


def _prepared(asked: PreparedStep | Source, overrides: Sequence[str]) -> tuple[PreparedStep, str, tuple[str, ...]]:
    """(the step, what it is called, ids of the techniques that the scenario names)."""
    from windtunnel.training.predict import prepare
    from windtunnel.training.step_setup import PreparedStep

    if isinstance(asked, PreparedStep):
        return asked, asked.model.name, ()
    prepared, scenario = prepare(asked, overrides=overrides)
    named = tuple(t if isinstance(t, str) else next(iter(t)) for t in scenario.techniques)
    return prepared, scenario.name or prepared.model.name, named


def _by_hand(technique: str, target: str) -> str:
    """How a technique is switched on that the written files do not have."""
    from windtunnel.techniques import REGISTRY

    option = REGISTRY.get(technique).where.get({"megatron": "megatron_core"}.get(target, target), "")
    return f"not written; {target} has it under {option}" if option else "how it is switched on is not known here"


def list_targets() -> tuple[str, ...]:
    """The ids of all training programs, sorted."""
    return TARGETS.list()


def list_server_targets() -> tuple[str, ...]:
    """The ids of all serving engines, sorted."""
    return SERVER_TARGETS.list()


def _write(folder: Path, texts: dict[str, str]) -> tuple[Path, ...]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, text in texts.items():
            path = folder / name
            write_text(path, text)
            if path.suffix in (".sh", ".sbatch"):
                path.chmod(0o755)
            paths.append(path)
    except OSError as error:
        raise not_written(folder, "folder", error) from None
    return tuple(paths)
