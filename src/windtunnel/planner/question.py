"""Which clusters and precisions a search may choose from, and everything that is wrong with the question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from windtunnel import catalog, schedules
from windtunnel.catalog.framework_plan import with_framework_plan
from windtunnel.cost.coefficients import coefficients
from windtunnel.cost.framework_defaults import behaviour_of
from windtunnel.errors import UNSET, BadInput, ProblemList, SourceLines, attempt, nearest_name
from windtunnel.parallel.precision import check_precision
from windtunnel.planner.case import Case
from windtunnel.planner.objectives import METRICS, Setting
from windtunnel.planner.whole_run import METRICS as RUN_METRICS
from windtunnel.planner.whole_run import RunSetting
from windtunnel.runs.checks import run_problems
from windtunnel.specs.batches import refuse_lengths
from windtunnel.specs.cluster import ClusterRef, ClusterSpec, MixedCluster, MixedClusterRef, refuse_groups
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.number_formats import MATRIX_FORMAT, multiplies
from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.search import SearchSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.stacks.formats import trains
from windtunnel.techniques import applied, on_cluster, on_run_section, on_workload
from windtunnel.techniques.base import Applied
from windtunnel.training.predict import look_up
from windtunnel.training.run_phases import PhaseScenario, phase_scenarios

_OF_THE_SITE = ("nodes", "devices_per_node", "scale_out", "host_memory_bytes")
"""What a cluster keeps when its devices are exchanged; links, memory, price and power come with the device."""
_SITE_NAME = " x "


@dataclass(frozen=True)
class Variant:
    """One cluster and precision of a search."""

    case: Case
    setting: Setting
    scenario: Scenario
    """With this cluster and precision written in."""


@dataclass(frozen=True)
class Question:
    """What a scenario asks of the planner."""

    variants: tuple[Variant, ...]
    wanted: SearchSpec
    left_out: dict[str, int]
    """Rule → variants that it took out."""


def question_of(scenario: Scenario, folder: Any = None, lines: SourceLines | None = None) -> Question:
    """Every cluster and precision that a scenario leaves open, looked up.

    Args:
        scenario: with a search.
        folder: relative paths of the scenario start here; absent: the working directory.
        lines: where the scenario's fields were written, for messages.

    Raises:
        BadInput: everything wrong with it, at once.
    """
    problems = ProblemList(lines)
    wanted = scenario.search or SearchSpec()
    model, base, techniques = look_up(scenario, Path(folder or "."), problems, verb="plan")
    if wanted.target != "training" and scenario.programs is None:
        problems.add("search.target", wanted.target, "must be training or serving")
    _check_axes(wanted, problems)
    phases = _checked_phases(scenario, techniques, problems)
    _check_searchable(scenario, wanted, base, problems)
    prices = prices_of(wanted, base, problems)
    devices = devices_of(wanted, base, problems)
    training = scenario.training
    run = _run_of(scenario, wanted, Path(folder or "."), problems)
    if base is None or model is None or training is None:
        problems.raise_if_any()
        raise AssertionError("a part is missing without a problem")
    _check_model(training, model, wanted, techniques, problems)
    clusters: dict[tuple[str, int], tuple[Any, ClusterSpec]] = {}
    for device, nodes in product(devices, wanted.space.nodes or (base.nodes,)):
        reference = reference_of(scenario.cluster, base, device, nodes, prices.get(device))
        cluster = _located(reference, wanted, problems)
        cluster = cluster and on_cluster(techniques, cluster, problems)
        if cluster is not None:
            clusters[device, nodes] = reference, cluster
    for own in {cluster.device.id: cluster.device for _, cluster in clusters.values()}.values():
        if not wanted.space.precision:
            check_precision(training, own, problems)
    _check_needs(wanted, [c for _, c in clusters.values()], problems)
    _check_spares(wanted, run, [c for _, c in clusters.values()], problems)
    problems.raise_if_any()
    if run is not None and (run.tokens, wanted.tokens) != (None, None):
        wanted = wanted.model_copy(update={"tokens": wanted.tokens or run.tokens})
    variants, left_out = _variants(scenario, wanted, model, techniques, list(clusters.values()), phases)
    if run is not None and _asking("run", wanted):
        variants = tuple(_with_run(v, run, wanted, Path(folder or ".")) for v in variants)
    return Question(variants, wanted, left_out)


def _run_of(scenario: Scenario, wanted: SearchSpec, folder: Path, problems: ProblemList) -> RunSpec | None:
    """The whole run that objectives and limits are about: the scenario's, or one of `search.tokens` alone."""
    run, tokens = scenario.run, wanted.tokens
    for need in ("tokens", "run"):
        if (
            tokens is None
            and (run is None or (need == "tokens" and run.tokens is None))
            and (asking := _asking(need, wanted))
        ):
            section = ", or a `run` section" if need == "run" else ""
            rule = f"is needed for {asking}: tokens of the whole run, such as 15T{section}"
            problems.add("search.tokens", UNSET, rule)
    if run is not None and tokens is not None and run.tokens not in (None, tokens) and _asking("run", wanted):
        problems.add("search.tokens", tokens, f"must be the {run.tokens:g} tokens of `run`, or absent")
    if run is None and tokens is not None:
        run = RunSpec(tokens=tokens)
    if (asking := _asking("grid", wanted)) and (run is None or run.grid is None):
        problems.add("run.grid", UNSET, f"is needed for {asking}: such as germany, or {{g_co2_per_kwh: 300}}")
    if run is not None and _asking("run", wanted):
        problems.extend(run_problems(run, folder))
    elif wanted.space.spares:
        problems.add(
            "search.space.spares", list(wanted.space.spares), "is for objectives of the run: days, run_cost, …"
        )
    return run


def _check_spares(wanted: SearchSpec, run: RunSpec | None, clusters: list[ClusterSpec], problems: ProblemList) -> None:
    """More spares than nodes."""
    if run is None or not clusters or not _asking("run", wanted):
        return
    least = min(c.nodes for c in clusters)
    field = "search.space.spares" if wanted.space.spares else "run.recovery.spares"
    for spares in wanted.space.spares or (run.recovery.spares,):
        extra = spares + run.recovery.pool_nodes + run.recovery.shared_nodes
        if extra > least:
            rule = f"spares, pool_nodes and shared_nodes must together be at most the job's {least} nodes"
            problems.add(field, extra, rule)


def _with_run(variant: Variant, run: RunSpec, wanted: SearchSpec, folder: Path) -> Variant:
    """A variant whose plans are asked for their whole run."""
    limits = {name for name in wanted.limits.model_fields_set if getattr(wanted.limits, name) is not None}
    deciding = next(n for n in (*wanted.objectives, *sorted(limits)) if n in RUN_METRICS)
    scenario = variant.scenario.model_copy(update={"run": run})
    run = on_run_section(applied(scenario.techniques), run, scenario)
    setting = RunSetting.of(
        run,
        folder,
        variant.case.cluster,
        variant.setting.tokens,
        wanted.space.spares or (run.recovery.spares,),
        deciding,
    )
    return Variant(variant.case, replace(variant.setting, run=setting), scenario)


def _variants(
    scenario: Scenario,
    wanted: SearchSpec,
    model: ModelSpec,
    techniques: tuple[Applied, ...],
    clusters: list[tuple[Any, ClusterSpec]],
    phases: tuple[PhaseScenario, ...],
) -> tuple[tuple[Variant, ...], dict[str, int]]:
    """Every cluster in every precision; and by rule how many a device's missing matrix rate takes out.

    Args:
        scenario: the scenario as the user states it.
        wanted: its search.
        model: its model.
        techniques: the applied ones.
        clusters: how a scenario writes each cluster, and the cluster.
        phases: phases of the run whose steps differ.
    """
    training = scenario.training
    assert training is not None
    left_out: dict[str, int] = {}
    variants = []
    for (reference, cluster), precision in product(clusters, wanted.space.precision or (training.precision,)):
        rule = _untrained(training, cluster, precision) if wanted.space.precision else None
        if rule is not None:
            left_out[rule] = left_out.get(rule, 0) + 1
            continue
        update: dict[str, Any] = {}
        if reference is not scenario.cluster:
            update["cluster"] = reference
        if precision != training.precision:
            update["training"] = training.model_copy(update={"precision": precision})
        own = scenario.model_copy(update=update) if update else scenario
        acting = on_workload(techniques, own.training)
        assert acting is not None
        plan, acting = with_framework_plan(own.plan, acting, cluster, model)
        own = own.model_copy(update={"plan": plan})
        case = Case(
            model=model,
            cluster=cluster,
            training=acting,
            techniques=techniques,
            behaviour=behaviour_of(acting, cluster.device, model),
            coefficients=coefficients(training.framework, cluster.device, cluster),
        )
        case = replace(case, phases=tuple(_phase(phase, case, own) for phase in phases))
        variants.append(Variant(case, Setting.of(cluster, acting, wanted.tokens), own))
    return tuple(variants), left_out


def _untrained(training: TrainingSpec, cluster: ClusterSpec, precision: str) -> str | None:
    """Why a precision of the space is no candidate on a cluster; None where it is one."""
    device, number = cluster.device, MATRIX_FORMAT[precision]
    if number not in device.peak_flop_per_s or not multiplies(precision, device.peak_flop_per_s):
        units = "microscaled" if number in device.peak_flop_per_s else number
        return f"{device.id} has no {units} rate, which precision {precision} needs"
    if not trains(training.framework, precision, training.framework_version):
        return f"{training.framework} {training.framework_version}".rstrip() + f" does not train in {precision}"
    return None


def _checked_phases(
    scenario: Scenario, techniques: tuple[Applied, ...], problems: ProblemList
) -> tuple[PhaseScenario, ...]:
    """Phases of the run; a search takes those that only leave out techniques."""
    phases: tuple[PhaseScenario, ...] = (
        attempt("training.run", lambda: phase_scenarios(scenario, techniques), problems) or ()
    )
    for at, part in enumerate(phases):
        if part.phase.set:
            rule = "is not searched: phases of a search may only leave out techniques"
            problems.add(f"training.run.{at}.set", sorted(part.phase.set), rule)
        for item in techniques:
            if item.technique.id in part.phase.without and item.changes_cluster:
                problems.add(f"training.run.{at}.without", item.technique.id, "exchanges devices: not searched")
    return phases


def _check_searchable(
    scenario: Scenario, wanted: SearchSpec, base: ClusterSpec | MixedCluster | None, problems: ProblemList
) -> None:
    """Whether this search covers what the scenario trains, and where."""
    training = scenario.training
    if training is not None and training.gradients == "zeroth_order":
        problems.add("training.gradients", "zeroth_order", "is not searched: bounds count a backward pass")
    if base is not None:
        refuse_groups(base, "`plan`")
    if training is not None:
        refuse_lengths(training.lengths, "`plan`")
    if wanted.space.group_axis:
        axes = list(wanted.space.group_axis)
        problems.add("search.space.group_axis", axes, "needs a heterogeneous cluster (cluster.groups)")


def _check_model(
    training: TrainingSpec,
    model: ModelSpec,
    wanted: SearchSpec,
    techniques: tuple[Applied, ...],
    problems: ProblemList,
) -> None:
    """Techniques that train without a backward pass, and written-out splits that do not sum to the model's layers."""
    if training.gradients != "zeroth_order":
        for item in techniques:
            if item.on_workload(training).gradients == "zeroth_order":
                rule = "sets training.gradients to zeroth_order, which is not searched: bounds count a backward pass"
                problems.add("techniques", item.technique.id, rule)
    depth = len(model.layer_kinds())
    for place, split in enumerate(wanted.space.stage_layers or ()):
        if isinstance(split, tuple) and sum(split) != depth:
            rule = f"must sum to the {depth} layers of {model.name}"
            problems.add(f"search.space.stage_layers.{place}", list(split), rule)


def _phase(part: PhaseScenario, case: Case, scenario: Scenario) -> tuple[float, Case]:
    """Share of the steps, and the case, of a phase that leaves out techniques."""
    chosen = tuple(t for t in case.techniques if t.technique.id not in part.phase.without)
    training = on_workload(chosen, scenario.training)
    assert training is not None
    own = Case(
        model=case.model,
        cluster=case.cluster,
        training=training,
        techniques=chosen,
        behaviour=case.behaviour,
        coefficients=case.coefficients,
    )
    return part.phase.fraction, own


def _asking(need: str, wanted: SearchSpec) -> str:
    """Objectives and limits that need something, for messages."""
    limits = {name for name in wanted.limits.model_fields_set if getattr(wanted.limits, name) is not None}
    names = [n for n, m in METRICS.items() if need in m.needs and (n in wanted.objectives or n in limits)]
    return " and ".join(names)


def _check_axes(wanted: SearchSpec, problems: ProblemList) -> None:
    """Values of axes that only this package knows to be wrong."""
    known = schedules.list_ids()
    for name in wanted.space.schedule or ():
        if name not in known:
            rule = f"no such schedule; known are {', '.join(known)}"
            problems.add("search.space.schedule", name, rule, nearest=nearest_name(name, known))


def prices_of(wanted: SearchSpec, base: ClusterSpec | None, problems: ProblemList) -> dict[str, float]:
    """Device id → price an hour."""
    out = {}
    for name, price in wanted.prices.items():
        if base is not None and name == base.device.id:
            out[name] = price
        elif device := _device(name, f"search.prices.{name}", problems):
            out[device.id] = price
    return out


def devices_of(wanted: SearchSpec, base: ClusterSpec | None, problems: ProblemList) -> list[str]:
    """Ids of the devices to choose from."""
    if wanted.space.device is None:
        return [base.device.id] if base is not None else []
    out = []
    for name in wanted.space.device:
        if base is not None and name == base.device.id:
            out.append(name)
        elif device := _device(name, "search.space.device", problems):
            out.append(device.id)
    return list(dict.fromkeys(out))


def _device(name: str, field: str, problems: ProblemList) -> DeviceSpec | None:
    try:
        return catalog.device(name)
    except BadInput as error:
        for problem in error.problems:
            problems.add(field, name, problem.rule, nearest=problem.nearest)
        return None


def _located(
    reference: str | ClusterRef | MixedClusterRef, wanted: SearchSpec, problems: ProblemList
) -> ClusterSpec | None:
    """A cluster of the search; what is wrong with it is a problem of the list that it comes from."""
    try:
        return catalog.resolve_cluster(reference)
    except BadInput as error:
        field = "search.space.nodes" if wanted.space.nodes else "search.space.device"
        for problem in error.problems:
            problems.add(field, problem.value, f"{problem.field}: {problem.rule}")
        return None


def reference_of(
    written: str | ClusterRef | MixedClusterRef, base: ClusterSpec, device: str, nodes: int, price: float | None
) -> str | ClusterRef | MixedClusterRef:
    """How a scenario writes its cluster with another device, number of nodes or price."""
    same = device == base.device.id
    if (same and nodes == base.nodes and price is None) or isinstance(written, MixedClusterRef):
        return written
    if isinstance(written, str):
        node = base.name.rsplit(_SITE_NAME, 1)[-1]
        if same and price is None and node in catalog.clusters() and catalog.cluster(node).nodes == 1:
            return f"{nodes}{_SITE_NAME}{node}"
        site: dict[str, Any] = {"devices_per_node": base.devices_per_node}
        if same:
            site |= _spelt_out(base)
        reference = ClusterRef.model_validate({"device": device, **site, "nodes": nodes})
    else:
        kept = written.model_fields_set if same else written.model_fields_set & {*_OF_THE_SITE}
        fields = {name: getattr(written, name) for name in kept}
        reference = ClusterRef.model_validate(fields | ({} if same else {"device": device}) | {"nodes": nodes})
    if price is not None:
        fields = {name: getattr(reference, name) for name in reference.model_fields_set}
        reference = ClusterRef.model_validate(fields | {"price_per_device_hour": price})
    return reference


def _spelt_out(cluster: ClusterSpec) -> dict[str, Any]:
    """A named cluster as a scenario writes one, by catalogue ids where they mean the same."""
    device, link = cluster.device, cluster.scale_up
    names = ("scale_up_domain", "host_memory_bytes", "power_cap_w", "clock_share", "price_per_device_hour")
    known = {name: value for name in names if (value := getattr(cluster, name)) is not None}
    return known | {
        "device": device.id if device.id in catalog.devices() and catalog.device(device.id) == device else device,
        "scale_up": link.id if link.id in catalog.links() and catalog.link(link.id) == link else link,
        "scale_out": cluster.scale_out,
    }


def _check_needs(wanted: SearchSpec, clusters: list[ClusterSpec], problems: ProblemList) -> None:
    """Prices and data-sheet power where an objective or a limit asks for them."""
    devices = {c.device.id: c for c in clusters}
    if asking := _asking("price", wanted):
        lacking = [d for d, c in devices.items() if not (c.price_per_device_hour or c.device.price_per_hour)]
        for device in lacking:
            rule = f"is needed for {asking}: no price of {device} is known; give search.prices: {{{device}: 2.50}}"
            problems.add(f"search.prices.{device}", UNSET, f"{rule} (money a device-hour)")
    if asking := _asking("power", wanted):
        for device in (d for d, c in devices.items() if not c.device.tdp_w):
            field = "search.space.device" if wanted.space.device else "cluster.device"
            problems.add(field, device, f"its data sheet gives no power (tdp_w), which {asking} needs")
