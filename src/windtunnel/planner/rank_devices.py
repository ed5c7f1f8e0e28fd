"""`cluster: {device: any}`: every priced device of the catalogue, each with its own best plan, ranked by cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from windtunnel import catalog
from windtunnel.catalog import store
from windtunnel.errors import BadInput, Infeasible, Problem
from windtunnel.planner.whole_run import METRICS as RUN_METRICS
from windtunnel.scenarios.load import fields_of
from windtunnel.scenarios.source import Source
from windtunnel.specs.scenario import Scenario
from windtunnel.versions import RESULT_SCHEMA

if TYPE_CHECKING:
    from windtunnel.planner.result import PlanResult
    from windtunnel.planner.serving.plan_deployment import ServingPlan

ANY = "any"
"""What stands under `cluster.device` for the devices of the catalogue that have a price."""
_JOULES_A_KWH = 3.6e6


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedDevice:
    """The best plan of the scenario on one kind of device."""

    device: str
    """Catalogue id."""
    num_devices: int
    plan: dict[str, Any]
    """Fields of the plan that differ between candidates."""
    scenario: dict[str, Any]
    """The scenario with device and plan written in: what `train` or `serve` takes."""
    cost_per_million_tokens: float
    """Dollars; of training tokens, or of generated tokens of serving."""
    cost_per_hour: float
    """Dollars of all devices."""
    tokens_per_s: float
    """Of all devices; of training tokens, or of generated tokens of serving."""
    mean_power_w: float | None
    """Mean draw of one device; None where no power is known."""
    energy_per_million_tokens_kwh: float | None
    step_time_s: float | None = None
    """Training."""
    step_time_interval_s: tuple[float, float] | None = None
    """Training: ends of the interval of `step_time_s`."""
    ttft_s: float | None = None
    """Serving: time to the first token at the percentile of the objective."""
    tpot_s: float | None = None
    """Serving: time per output token at the percentile of the objective."""
    tpot_interval_s: tuple[float, float] | None = None
    """Serving: ends of the interval of the mean time per output token."""
    complete: bool = True
    """Whether the search of this device was finished."""
    objective: str = ""
    """What devices are ranked by, where it is a figure of the whole run; empty: cost per token."""
    whole_run: dict[str, Any] = field(default_factory=dict)
    """Expected figures of the run (`planner.whole_run.WholeRun`), where the objective asks for them."""

    @property
    def order(self) -> float:
        """What devices are ranked by, less being better."""
        return float(self.whole_run[self.objective]) if self.objective else self.cost_per_million_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRanking:
    """Priced devices of the catalogue, the cheapest per token first, or the best at a figure of the whole run."""

    serving: bool
    ranked: tuple[RankedDevice, ...]
    without_plan: dict[str, str]
    """Device → why it has no plan: its memory, a limit that no plan keeps, a format that it does not compute in."""
    not_priced: tuple[str, ...]
    """Devices of the catalogue without a price."""
    not_searched: tuple[str, ...] = ()
    """Devices that Ctrl-C left out."""
    elapsed_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {"schema_version": RESULT_SCHEMA} | asdict(self)


def catalogue_devices() -> tuple[str, ...]:
    """Ids of all devices of the catalogue."""
    return store.ids("devices")


def asks_for_any_device(source: Source, overrides: tuple[str, ...] = ()) -> bool:
    """Tell whether `cluster.device` of a scenario is `any`."""
    if isinstance(source, Scenario):
        return getattr(source.cluster, "device", None) == ANY
    try:
        data, _ = fields_of(source, overrides)
    except BadInput:  # whoever reads it next says why
        return False
    cluster = data.get("cluster")
    return isinstance(cluster, dict) and cluster.get("device") == ANY


def rank_devices(
    source: Source,
    *,
    overrides: tuple[str, ...] = (),
    report: Callable[[str, int, int], None] | None = None,
    time_limit_s: float | None = None,
) -> DeviceRanking:
    """Search the best plan on every priced device of the catalogue, on as many devices as the scenario's cluster has.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`; its `cluster.device` is `any`.
        overrides: `key=value` settings as `--set` takes them.
        report: called with the device that is searched, the number of devices before it, and the number of all.
        time_limit_s: seconds after which the devices that were searched so far, once there is one with a plan, are the
            answer; each device gets an even share of what is left. None: no end.

    Ctrl-C returns the devices searched so far, once there is one with a plan.

    Raises:
        BadInput: everything wrong with the scenario that is wrong on every device.
        Infeasible: no priced device has a plan.
    """
    begun = time.perf_counter()
    own_prices = _own_prices(source, overrides)
    priced = [name for name in catalogue_devices() if own_prices.get(name) or catalog.device(name).price_per_hour]
    ranked: list[RankedDevice] = []
    without: dict[str, str] = {}
    wrong: list[BadInput] = []
    left: tuple[str, ...] = ()
    for done, name in enumerate(priced):
        if report:
            report(name, done, len(priced))
        over = None if time_limit_s is None else begun + time_limit_s - time.perf_counter()
        if ranked and over is not None and over <= 0.0:
            left = tuple(priced[done:])
            break
        share_s = None if over is None else max(over, 0.0) / (len(priced) - done)
        try:
            ranked.append(_best_on(source, overrides, name, own_prices.get(name), share_s))
        except BadInput as error:
            wrong.append(error)
            without[name] = "; ".join(f"{p.field}: {p.rule}" for p in error.problems)
        except Infeasible as error:
            without[name] = str(error)
        except KeyboardInterrupt:
            if not ranked:
                raise
            left = tuple(priced[done:])
            break
        if (
            ranked and not ranked[-1].complete and time_limit_s is None
        ):  # Ctrl-C ended this device's search with the best plan so far
            left = tuple(priced[done + 1 :])
            break
    if not ranked and len(wrong) == len(priced):
        raise wrong[0]
    if not ranked:
        raise Infeasible(f"no priced device of the catalogue has a plan ({_reasons(without)})")
    ranked.sort(key=lambda one: one.order)
    return DeviceRanking(
        serving=ranked[0].step_time_s is None,
        ranked=tuple(ranked),
        without_plan=without,
        not_priced=tuple(name for name in catalogue_devices() if name not in priced),
        not_searched=left,
        elapsed_s=time.perf_counter() - begun,
    )


def _reasons(without_plan: dict[str, str]) -> str:
    """The first clause of why each device has no plan, equal ones together."""
    devices: dict[str, list[str]] = {}
    for name, why in without_plan.items():
        devices.setdefault(why.partition("; ")[0], []).append(name)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in devices.items())


def _own_prices(source: Source, overrides: tuple[str, ...]) -> dict[str, float]:
    """Dollars a device-hour that the scenario states in `search.prices`, by catalogue id.

    Raises:
        BadInput: the scenario sets what devices differ in.
    """
    data = source.model_dump(exclude_unset=True) if isinstance(source, Scenario) else fields_of(source, overrides)[0]
    search, cluster = data.get("search"), data.get("cluster", {})
    problems = []
    if isinstance(search, dict) and isinstance(search.get("space"), dict) and search["space"].get("device"):
        problems.append(Problem("search.space.device", "must be absent where cluster.device is `any`"))
    for name in ("price_per_device_hour", "memory_bytes", "memory_bytes_per_s", "power_cap_w"):
        if cluster.get(name) is not None:
            problems.append(
                Problem(f"cluster.{name}", "must be absent where cluster.device is `any`: devices differ in it")
            )
    if problems:
        raise BadInput(problems)
    prices = search.get("prices") if isinstance(search, dict) else None
    return {catalog.device(name).id: float(price) for name, price in (prices or {}).items()}


def _best_on(
    source: Source, overrides: tuple[str, ...], device: str, price: float | None, time_limit_s: float | None
) -> RankedDevice:
    """The best plan on one kind of device, or the best that was found within so many seconds.

    Raises:
        BadInput: what is wrong with the scenario on this device.
        Infeasible: no plan on this device keeps to the limits.
    """
    from windtunnel.catalog.load import load
    from windtunnel.planner.plan_training import plan
    from windtunnel.planner.serving.plan_deployment import plan_serving

    given = (*overrides, f"cluster.device={device}")
    if price is not None:
        given = (*given, f"cluster.price_per_device_hour={price}")
    if isinstance(source, Scenario):
        assert not isinstance(source.cluster, str)
        cluster = source.cluster.model_copy(update={"device": device})
        source, given = source.model_copy(update={"cluster": cluster}), given[len(overrides) + 1 :]
    scenario, lines, folder = load(source, given)
    if scenario.search is not None and scenario.search.target == "serving":
        return _served(device, plan_serving(scenario, lines, folder, time_limit_s=time_limit_s))
    return _trained(device, plan(source, overrides=given, time_limit_s=time_limit_s))


def _trained(device: str, found: PlanResult) -> RankedDevice:
    """Cost, time and power of a training plan."""
    best = found.best
    assert best.cost_per_million_tokens is not None
    watts = best.mean_power_w or None
    return RankedDevice(
        device=device,
        num_devices=best.num_devices,
        plan=dict(found.frontier[0].plan),
        scenario=found.scenario,
        cost_per_million_tokens=best.cost_per_million_tokens,
        cost_per_hour=best.cost_per_million_tokens * best.tokens_per_s * 3600.0 / 1e6,
        tokens_per_s=best.tokens_per_s,
        mean_power_w=watts,
        energy_per_million_tokens_kwh=_energy_kwh(watts, best.num_devices, best.tokens_per_s),
        step_time_s=best.step_time_s,
        step_time_interval_s=None if best.interval is None else (best.interval.low, best.interval.high),
        complete=found.proof.complete,
        objective=found.objectives[0] if found.objectives[0] in RUN_METRICS else "",
        whole_run=found.frontier[0].whole_run,
    )


def _served(device: str, found: ServingPlan) -> RankedDevice:
    """Cost, times and power of a deployment."""
    best, values, result = found.best, found.best.values, found.result
    watts = result.power.get("mean_w_per_device") or None
    interval = result.intervals.get("tpot_s")
    return RankedDevice(
        device=device,
        num_devices=int(values["devices"]),
        plan={name: value for name, value in best.plan.items() if name != "device"},
        scenario=found.scenario,
        cost_per_million_tokens=values["cost_per_million_tokens"],
        cost_per_hour=values["cost_per_hour"],
        tokens_per_s=values["tokens_per_s"],
        mean_power_w=watts,
        energy_per_million_tokens_kwh=_energy_kwh(watts, int(values["devices"]), values["tokens_per_s"]),
        ttft_s=best.quantiles.get("ttft_s"),
        tpot_s=best.quantiles.get("tpot_s"),
        tpot_interval_s=None if interval is None else (interval["low"], interval["high"]),
        complete=found.proof.complete,
    )


def _energy_kwh(watts: float | None, devices: int, tokens_per_s: float) -> float | None:
    """Kilowatt-hours of a million tokens."""
    return None if watts is None else watts * devices * 1e6 / tokens_per_s / _JOULES_A_KWH
