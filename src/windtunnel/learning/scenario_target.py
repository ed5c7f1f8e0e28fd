"""The target of a scenario: what one worker trains on its own copy of the cluster, for the clock.

Where `model`, `cluster` and `training` say it, the step is simulated and the tensors are the model's; else `step_s` and
`parameters` state it; else messages have the bytes of the proxy and nothing has seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windtunnel.errors import BadInput, ProblemList
from windtunnel.learning.tasks.base import Shapes
from windtunnel.learning.timing.links import link_of
from windtunnel.learning.timing.target import FORWARD_SHARE, Layer, Speeds, Target, stated_layers
from windtunnel.specs.learning import LearningSpec
from windtunnel.specs.scenario import ModelFile, Scenario
from windtunnel.techniques import Applied


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioTarget:
    """A target, and what of it is known."""

    target: Target
    """Seconds of its step are 1 where `timed` is False."""
    timed: bool
    """Whether anything says how long a step takes."""
    model: str
    source: str
    """Where seconds come from, in words."""
    grade: str
    """Of the seconds."""
    powered: bool
    """Whether anything says how many watts a worker draws."""
    nodes: int = 1
    """Of one worker."""
    devices_per_node: int = 1
    seq_len: int | None = None
    global_batch: int | None = None

    def figures(self) -> dict[str, Any]:
        """Plain data for results."""
        t = self.target
        return {
            "model": self.model,
            "parameters": t.parameters,
            "layers": len(t.layers),
            "step_s": t.step_s if self.timed else None,
            "source": self.source,
            "grade": self.grade,
            "step_watts": t.step_watts if self.powered else None,
            "idle_watts": t.idle_watts if self.powered else None,
            "price_per_hour": t.price_per_hour,
            "devices": self.nodes * self.devices_per_node,
        }


def scenario_target(
    scenario: Scenario, chosen: tuple[Applied, ...], proxy: Shapes, folder: Path, problems: ProblemList
) -> ScenarioTarget | None:
    """What is timed; None where that cannot be, with the reasons in `problems`.

    Args:
        scenario: As it is written.
        chosen: Its techniques, looked up.
        proxy: Tensors of the task's model, which stand in where nothing says what is trained.
        folder: Folder that the scenario's paths are relative to.
        problems: Collects what is wrong.
    """
    spec = scenario.learning
    assert spec is not None
    link = None if spec.link is None else link_of(spec.link)
    speeds = speeds_of(spec)
    if scenario.training is not None and spec.step_s is None:
        return _simulated(scenario, spec, _of_steps(scenario, chosen), folder, problems)
    model, layers = _layers(scenario, spec, proxy, folder, problems)
    timed = spec.step_s is not None
    target = Target(
        step_s=spec.step_s if spec.step_s is not None else 1.0,
        layers=layers,
        link=link if timed else None,
        speeds=speeds,
        step_watts=spec.step_watts or 0.0,
        idle_watts=spec.idle_watts or 0.0,
        source="stated",
    )
    return ScenarioTarget(
        target=target,
        timed=timed,
        model=model,
        source="learning.step_s" if timed else "",
        grade="stated" if timed else "",
        powered=spec.step_watts is not None,
    )


def speeds_of(spec: LearningSpec) -> Speeds | None:
    """How workers differ, as the clock reads it."""
    if spec.speeds is None:
        return None
    s = spec.speeds
    return Speeds(factors=s.factors, lognormal=s.lognormal or 0.0, jitter=s.jitter, exponential=s.exponential)


def _layers(
    scenario: Scenario, spec: LearningSpec, proxy: Shapes, folder: Path, problems: ProblemList
) -> tuple[str, tuple[Layer, ...]]:
    """(name, layers) of what is trained."""
    if spec.parameters is not None:
        return "", stated_layers(spec.parameters, spec.layers)
    if scenario.model:
        from windtunnel.importers.model import resolve_model

        with problems.below("model"):
            model = resolve_model(scenario, folder)
            return model.name, model_layers(model, FORWARD_SHARE, 1.0)
    return "the task itself", (Layer(shapes=proxy, forward_share=FORWARD_SHARE, backward_share=1.0 - FORWARD_SHARE),)


def model_layers(model: Any, forward_share: float, busy_share: float) -> tuple[Layer, ...]:
    """Layers of a model with the tensors of its graph: embedding, every block, head.

    Args:
        model: A `ModelSpec`.
        forward_share: Seconds of the forward over those of forward and backward.
        busy_share: Seconds of both over those of the step; the rest is the update.
    """
    from windtunnel.graph import Batch, build

    graph = build(model, Batch.train(1, 1024))
    blocks = [graph.embedding, *(graph.blocks[kind] for kind in graph.depth)]
    if not graph.tied:
        blocks.append(graph.head)
    weights = [0.0, *(b.params for b in blocks[1:])]
    whole = sum(weights)
    return tuple(
        Layer(
            shapes=_tensors(block),
            forward_share=busy_share * forward_share * weight / whole,
            backward_share=busy_share * (1.0 - forward_share) * weight / whole,
        )
        for block, weight in zip(blocks, weights, strict=True)
    )


def _tensors(block: Any) -> Shapes:
    """Weights of a block: matrices of products, and what is left of each operator as a vector."""
    out: list[tuple[int, ...]] = []
    for op in block.operators:
        whole = round(op.params)
        n, k = round(op.n), round(op.k)
        copies = whole // (n * k) if n * k else 0
        out += [(n, k)] * copies
        if left := whole - copies * n * k:
            out.append((left,))
    counted = sum(round(op.params) for op in block.operators)
    if (left := round(block.params) - counted) > 0:
        out.append((left,))
    return tuple(out)


_NOT_OF_A_STEP = ("learning", "run", "serving", "search", "jobs", "techniques")
"""Sections that a training step does not read; techniques are chosen one by one."""


def _simulated(
    scenario: Scenario, spec: LearningSpec, techniques: list[Any], folder: Path, problems: ProblemList
) -> ScenarioTarget | None:
    """The step of one worker on its own cluster, as `train` predicts it."""
    from windtunnel.cost.clock import idle_w
    from windtunnel.specs.cluster import refuse_groups
    from windtunnel.training.predict import prepare, simulate_training

    source = scenario.model_dump(mode="json", exclude_unset=True)
    source = {k: v for k, v in source.items() if k not in _NOT_OF_A_STEP}
    if techniques:
        source["techniques"] = techniques
    if isinstance(scenario.model, ModelFile) and isinstance(scenario.model.config, str):
        source["model"]["config"] = str((folder / scenario.model.config).resolve())
    try:
        prepared, _ = prepare(source)
        refuse_groups(prepared.cluster, "`learn`")
        step = simulate_training(source, sensitivities=False)
    except BadInput as error:
        problems.extend(error.problems)
        return None
    cluster = prepared.cluster
    devices = cluster.num_devices
    micro = prepared.members[0].plan.m
    forward = sum(row["forward_s"] for row in step.stages)
    both = forward + sum(row["backward_s"] for row in step.stages)
    longest = max((row["forward_s"] + row["backward_s"] for row in step.stages), default=0.0) * micro
    busy = min(longest / step.step_time_s, 1.0) if step.step_time_s else 1.0
    price = step.cost_per_million_tokens
    watts = spec.step_watts if spec.step_watts is not None else step.mean_power_w * devices
    idle = spec.idle_watts if spec.idle_watts is not None else idle_w(cluster.device) * devices
    target = Target(
        step_s=step.step_time_s,
        layers=model_layers(prepared.model, forward / both if both else FORWARD_SHARE, busy),
        link=None if spec.link is None else link_of(spec.link),
        speeds=speeds_of(spec),
        step_watts=watts,
        idle_watts=idle,
        price_per_hour=None if price is None else price / 1e6 * step.tokens_per_s * 3600.0,
        source="simulated",
    )
    return ScenarioTarget(
        target=target,
        timed=True,
        model=prepared.model.name,
        source=f"predicted on {devices} {cluster.device.id}",
        grade=step.grades.get("step_time_s", "analytic"),
        powered=watts > 0,
        nodes=cluster.nodes,
        devices_per_node=cluster.devices_per_node,
        seq_len=scenario.training.seq_len if scenario.training else None,
        global_batch=scenario.training.global_batch if scenario.training else None,
    )


def _of_steps(scenario: Scenario, chosen: tuple[Applied, ...]) -> list[Any]:
    """Techniques that act on a training step; those of learning choose algorithms."""
    of_step = [item.technique for item in chosen if not item.technique.algorithm]
    kept = {technique.id for technique in of_step if "training" in technique.scopes}
    return [entry for entry in scenario.techniques if (entry if isinstance(entry, str) else next(iter(entry))) in kept]
