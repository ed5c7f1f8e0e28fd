"""Scenarios in one line of Python: `wt.scenario(model="Qwen/Qwen3-8B", device="h100-sxm-80gb", tp=2).predict()`.

A keyword is a field of a scenario's section without the section's name (`tp` is `plan.tp`, `seq_len` is
`training.seq_len`, `nodes` is `cluster.nodes`), or a section as a mapping (`serving={...}`); a dotted path is given as
a setting, `with_("plan.offload.optimizer=1")`. Everything else is as in a scenario file, and nothing is simulated
before it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.files import reading
from windtunnel.files.writing import write_text

if TYPE_CHECKING:
    from windtunnel.advice import Advice
    from windtunnel.api import FitResult
    from windtunnel.learning.results import LearningResult
    from windtunnel.planner.rank_devices import DeviceRanking
    from windtunnel.planner.result import PlanResult
    from windtunnel.planner.serving.plan_deployment import ServingPlan
    from windtunnel.programs.result import ReasonResult
    from windtunnel.scenarios.source import FieldsInFolder
    from windtunnel.serving.results.serving_result import ServingResult
    from windtunnel.specs.scenario import Scenario
    from windtunnel.sweeps.start import Sweep
    from windtunnel.training.results.training_result import TrainingResult

DEVICES_PER_NODE = 8
"""Devices in a node where neither a keyword nor the catalogue says."""


def scenario(source: str | Path | Mapping[str, Any] | None = None, /, *settings: str, **fields: Any) -> ScenarioDraft:
    """A scenario from keywords, from a file, or from a file with keywords on top.

    Args:
        source: path of a scenario file or a mapping of its fields; absent: keywords alone.
        settings: `path.to.field=value`, as `--set` takes them.
        fields: fields by their own name, or whole sections as mappings.

    Raises:
        BadInput: unknown keywords, all at once, each with the nearest field. What values mean is checked when the
            scenario is used.

    Example:
        >>> import windtunnel as wt
        >>> s = wt.scenario(model="Qwen/Qwen3-8B", device="h100-sxm-80gb", nodes=1, seq_len=4096, global_batch=64, tp=2)
        >>> s
        scenario: Qwen/Qwen3-8B on 8 x h100-sxm-80gb; training seq_len 4096, global_batch 64; plan tp 2
    """
    data: dict[str, Any] = {}
    folder = Path()
    if isinstance(source, Mapping):
        data = _copied(source)
    elif source is not None:
        from windtunnel.scenarios.read import read_mapping

        data, folder = read_mapping(Path(source)), Path(source).parent
    return ScenarioDraft(data, tuple(settings), folder).with_(**fields)


def sweep(
    source: str | Path | Mapping[str, Any] | ScenarioDraft,
    vary: Mapping[str, Sequence[Any] | str],
    *settings: str,
    together: Sequence[Mapping[str, Sequence[Any]]] = (),
    verb: str | None = None,
    draws: int = 0,
    seed: int = 1,
    out: str | Path | None = None,
    processes: int | None = None,
    ray: str | None = None,
) -> Sweep:
    """Every combination of some fields' values, one row each: `wt.sweep("my.yaml", {"plan.tp": [1, 2, 4]}).to_frame()`.

    Args:
        source: path of a scenario file, a mapping of its fields, or a draft.
        vary: field → values, or a text such as `8..64:x2`; each field is an axis.
        settings: `path.to.field=value`, as `--set` takes them.
        together: mappings of fields that vary together, one axis each.
        verb: train, serve, fit, run, cluster, learn or reason; absent: what the scenario's sections mean.
        draws: draws of each combination, paired between combinations.
        seed: of the draws.
        out: folder for rows, where an interrupted sweep goes on; absent: a temporary one.
        processes: processes of this machine; 1: in this one; absent: as many as CPUs where the work is worth it.
        ray: address of a Ray cluster, or `local`.

    Raises:
        BadInput: everything wrong with the question, at once. What single combinations have wrong is in their rows.
    """
    from windtunnel import api
    from windtunnel.scenarios.source import FieldsInFolder
    from windtunnel.sweeps.define import Asked
    from windtunnel.sweeps.start import Where, listed

    def text(field: str, values: Sequence[Any] | str) -> str:
        return f"{field}={values if isinstance(values, str) else listed(values)}"

    given: Any = dict(source) if isinstance(source, Mapping) else source
    if isinstance(source, ScenarioDraft):
        given, settings = FieldsInFolder(dict(source.data), source.folder), (*source.settings, *settings)
    asked = Asked(
        source=given,
        vary=tuple(text(field, values) for field, values in vary.items()),
        together=tuple("; ".join(text(field, values) for field, values in axis.items()) for axis in together),
        overrides=tuple(settings),
        verb=verb,
        draws=draws,
        seed=seed,
    )
    return api.start_sweep(asked, out, Where(processes=processes, ray=ray))


@dataclass(frozen=True, slots=True)
class ScenarioDraft:
    """A scenario under construction. Every method returns a new one or a result; none changes it."""

    data: Mapping[str, Any]
    """Fields as a file would hold them."""
    settings: tuple[str, ...] = ()
    """`path=value` on top."""
    folder: Path = field(default=Path())
    """Folder that paths in the scenario are relative to."""

    def with_(self, *settings: str, **fields: Any) -> ScenarioDraft:
        """The scenario with other values.

        Raises:
            BadInput: unknown keywords, all at once.
        """
        data, problems = _copied(self.data), []
        homes = _homes()
        for name, value in fields.items():
            if name in _SECTIONS:
                merged = isinstance(value, Mapping) and isinstance(data.get(name), Mapping)
                data[name] = {**data[name], **value} if merged else value
            elif name in homes:
                section = data.setdefault(homes[name], {})
                if not isinstance(section, dict):
                    rule = f"is a field of {homes[name]}, which is {section!r} here"
                    problems.append(Problem(name, rule, value))
                    continue
                section[name] = value
            else:
                nearest = nearest_name(name, [*homes, *_SECTIONS])
                problems.append(Problem(name, "no such field of a scenario", value, nearest=nearest))
        if problems:
            raise BadInput(problems)
        cluster = data.get("cluster")
        if isinstance(cluster, dict) and "device" in cluster:
            cluster.setdefault("nodes", 1)
            cluster.setdefault("devices_per_node", DEVICES_PER_NODE)
        return ScenarioDraft(data, (*self.settings, *settings), self.folder)

    def resolved(self) -> Scenario:
        """The checked scenario.

        Raises:
            BadInput: everything wrong with it, at once.
        """
        from windtunnel.scenarios.load import load_scenario
        from windtunnel.scenarios.source import FieldsInFolder

        return load_scenario(FieldsInFolder(_rooted(self.data, self.folder), self.folder), self.settings)

    def predict(self) -> TrainingResult | ServingResult:
        """Predict the training step, or the serving run where the scenario has a `serving` section.

        A training scenario without a plan, or with an axis that is `auto`, takes the planner's recommendation. Without
        `training` and `serving` it trains 8,192 tokens a sequence and one sequence a device, as `windtunnel init`
        writes; `assumed` of the result says so.

        Raises:
            BadInput: everything wrong with the scenario, at once.
        """
        from windtunnel import api

        if "serving" in self.data:
            return api.simulate_serving(self._source(), overrides=self.settings)
        if "training" not in self.data and not any(one.startswith("training.") for one in self.settings):
            work = _default_training(self.data.get("cluster"))
            return _with_assumed(ScenarioDraft({**self.data, "training": work}, self.settings, self.folder), work)
        return _predicted(self)

    def fit(self) -> FitResult:
        """Whether the plan fits in device memory, and what would."""
        from windtunnel import api

        return api.fit(self._source(), overrides=self.settings)

    def learn(self, *, cache: bool = True) -> LearningResult:
        """Loss against hours, bytes and joules of the algorithms in its `learning` section."""
        from windtunnel import api

        return api.simulate_learning(self._source(), overrides=self.settings, cache=cache)

    def reason(self) -> ReasonResult:
        """Accuracy, dollars, joules and latency of the strategies in its `programs` section."""
        from windtunnel import api

        return api.simulate_programs(self._source(), overrides=self.settings)

    def plan(self) -> PlanResult | ServingPlan | DeviceRanking:
        """The best plan, or the best deployment where the scenario has a `serving` section."""
        from windtunnel import api

        return api.plan(self._source(), overrides=self.settings)

    def advise(self) -> Advice:
        """Which published techniques would help."""
        from windtunnel import api

        return api.advise(self._source(), overrides=self.settings)

    def to_yaml(self) -> str:
        """The scenario as a file would hold it, settings applied.

        Raises:
            BadInput: everything wrong with the scenario, at once.
        """
        from windtunnel.scenarios.load import dump_scenario

        return dump_scenario(self.resolved())

    def save(self, path: str | Path) -> Path:
        """Write the scenario as YAML and return the path."""
        target = Path(path)
        write_text(target, self.to_yaml())
        return target

    def _source(self) -> FieldsInFolder:
        """The fields, whose files are found from anywhere."""
        from windtunnel.scenarios.source import FieldsInFolder

        return FieldsInFolder(dict(self.data), self.folder)

    def __repr__(self) -> str:
        model, cluster = self.data.get("model", "no model"), self.data.get("cluster")
        if isinstance(model, Mapping):
            model = model.get("name") or model.get("config") or "inline model"
        where = str(cluster or "no cluster")
        if isinstance(cluster, Mapping) and "device" in cluster:
            device = cluster["device"]
            name = device if isinstance(device, str) else "inline device"
            where = f"{cluster.get('nodes', 1) * cluster.get('devices_per_node', DEVICES_PER_NODE)} x {name}"
        parts = [f"scenario: {model} on {where}"]
        for section in ("training", "plan", "serving"):
            fields = self.data.get(section)
            if isinstance(fields, Mapping) and fields:
                shown = ", ".join(f"{k} {v}" for k, v in fields.items() if not isinstance(v, Mapping | list))
                parts.append(f"{section} {shown}".strip())
        return "; ".join([*parts, *self.settings])


_SECTIONS = ("name", "model", "cluster", "training", "plan", "techniques", "serving", "search", "learning", "programs")


SEQ_LEN = 8192
"""Tokens of a sequence where a training scenario in Python says nothing of its work: as `init` writes."""


def _default_training(cluster: Any) -> dict[str, int]:
    """Sequence length and batch, one sequence a device, of a scenario that says nothing of its work."""
    own = cluster if isinstance(cluster, Mapping) else {}
    devices = own.get("nodes", 1) * own.get("devices_per_node", DEVICES_PER_NODE)
    return {"seq_len": SEQ_LEN, "global_batch": devices}


def _predicted(draft: ScenarioDraft) -> TrainingResult:
    """Prediction of a draft, with the planner's recommendation for what its plan leaves open."""
    from windtunnel import api

    return api.simulate_training(draft._source(), overrides=draft.settings)


def _with_assumed(draft: ScenarioDraft, work: Mapping[str, int]) -> TrainingResult:
    """Prediction of a draft whose work was filled in, which its list of assumptions says."""
    from windtunnel.training.results.records import Assumption

    result = _predicted(draft)
    said = (Assumption(f"training.{name}", str(value), "as `init` writes") for name, value in work.items())
    return replace(result, assumed=(*said, *result.assumed))


def _homes() -> dict[str, str]:
    """Field → the section that it stands in; fields that several sections have belong to the first."""
    from windtunnel.specs.cluster import ClusterRef
    from windtunnel.specs.plan import PlanSpec
    from windtunnel.specs.workload import TrainingSpec

    homes: dict[str, str] = {}
    for section, record in (("cluster", ClusterRef), ("training", TrainingSpec), ("plan", PlanSpec)):
        for name in record.model_fields:
            homes.setdefault(name, section)
    return homes


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value


def _rooted(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The fields with file names made absolute, so that they can be read from anywhere."""
    out: dict[str, Any] = _copied(data)
    if folder == Path():
        return out
    for section, key in (("model", "config"), ("cluster", "device")):
        holder = out.get(section)
        if isinstance(holder, dict) and isinstance(holder.get(key), str) and reading.is_file(folder / holder[key]):
            holder[key] = str((folder / holder[key]).resolve())
    traffic = (out.get("serving") or {}).get("traffic") if isinstance(out.get("serving"), dict) else None
    if (
        isinstance(traffic, dict)
        and isinstance(traffic.get("trace"), str)
        and reading.is_file(folder / traffic["trace"])
    ):
        traffic["trace"] = str((folder / traffic["trace"]).resolve())
    return out
