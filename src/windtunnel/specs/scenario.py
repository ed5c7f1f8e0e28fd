"""A scenario: the file a user writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from windtunnel.specs.base import Spec
from windtunnel.specs.cluster import ClusterRef, MixedClusterRef
from windtunnel.specs.jobs import JobsSpec
from windtunnel.specs.learning import LearningSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.population import PopulationSpec
from windtunnel.specs.programs import ProgramsSpec, traffic_of
from windtunnel.specs.run import RunSpec
from windtunnel.specs.search import SearchSpec
from windtunnel.specs.serving import ServingSpec
from windtunnel.specs.workload import TrainingSpec


class ModelFile(Spec):
    """A Hugging Face `config.json`: its path, relative to the scenario, or what it says, also without `config:`."""

    config: str | dict[str, Any]
    """Path of the file, relative to the scenario, or its fields."""
    num_hidden_layers: int | None = Field(default=None, gt=0)
    """Layers in place of those that the file says."""

    def located(self, folder: Path) -> Path | dict[str, Any]:
        """The path of the file, or its fields."""
        return folder / self.config if isinstance(self.config, str) else self.config


class Scenario(Spec):
    """Model, cluster, work and plan. `search` is what `plan` chooses from."""

    schema_version: Literal[1] = 1
    """Version of this format; 1 is the only one."""
    name: str = ""
    """Title of results and reports."""
    model: str | ModelFile | ModelSpec = ""
    """Absent where only `jobs` is stated: jobs bring their own."""
    cluster: str | ClusterRef | MixedClusterRef = ""
    """Absent only where `jobs.nodes` names a list of nodes."""
    training: TrainingSpec | None = None
    """What one training step works on: batch, sequence length, formats, framework."""
    plan: PlanSpec = PlanSpec()
    """How model and work are spread over the devices."""
    techniques: tuple[str | dict[str, dict[str, Any]], ...] = ()
    """Ids of published techniques that are switched on (`windtunnel techniques list`), each with its knobs where they
    are stated."""
    serving: ServingSpec | None = None
    """Pools of instances, their traffic and objectives, for `windtunnel serve`."""
    search: SearchSpec | None = None
    """Objective, limits and space of what `windtunnel plan` chooses from."""
    jobs: JobsSpec | None = None
    """Jobs that share the cluster, for `windtunnel cluster`."""
    run: RunSpec | None = None
    """The whole run that `windtunnel run` predicts."""
    learning: LearningSpec | None = None
    """Algorithms that `windtunnel learn` compares."""
    population: PopulationSpec | None = None
    """How often attempts at the problems of a task are right, for `windtunnel reason`; or a file of `calibrate --from
    samples`, relative to the scenario."""
    programs: ProgramsSpec | None = None
    """Tasks of several model calls, for `windtunnel reason`."""

    @property
    def own_verb(self) -> str:
        """End of a rule: which command reads the sections that other commands do not; empty where none is stated."""
        if self.programs is not None:
            return "; of programs, `reason` is the command"
        return "; of learning, `learn` is the command" if self.learning is not None else ""

    @model_validator(mode="before")
    @classmethod
    def _pasted_configuration(cls, given: Any) -> Any:
        """Fields of a Hugging Face `config.json` under `model` are that file; `name` names it."""
        model = given.get("model") if isinstance(given, dict) else None
        if not isinstance(model, dict) or "config" in model or not model.keys() & {"model_type", "architectures"}:
            return given
        fields = {key: value for key, value in model.items() if key != "name"}
        named = {"_name_or_path": model["name"]} if "name" in model else {}
        return {**given, "model": {"config": fields | named}}

    @model_validator(mode="before")
    @classmethod
    def _traffic_of_programs(cls, given: Any) -> Any:
        """Serving needs traffic, and with programs it is theirs."""
        if not isinstance(given, dict) or not isinstance(serving := given.get("serving"), dict):
            return given
        traffic = traffic_of(given.get("programs"))
        return (
            given if traffic is None or "traffic" in serving else {**given, "serving": {**serving, "traffic": traffic}}
        )
