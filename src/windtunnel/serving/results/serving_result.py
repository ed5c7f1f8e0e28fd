"""What a serving prediction returns. Units are in the names; everything converts to plain data and frames."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.extras import extra
from windtunnel.serving.results.metrics import Distribution
from windtunnel.versions import RESULT_SCHEMA

if TYPE_CHECKING:
    import numpy.typing as npt

    from windtunnel.charts.chart import Panels
    from windtunnel.serving.results.run_record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingResult:
    """One simulated deployment under one traffic."""

    scenario_name: str
    requests: int
    completed: int
    rejected: int
    """Requests that were rejected because they need more cache than there is."""
    shed: int
    """Requests that the admission rule shed."""
    duration_s: float
    """First arrival to last answer."""
    measured_in_s: tuple[float, float] | None = None
    """Window that rates, cost and energy are measured in, where requests come by the clock: from when batches have
    filled (or the stated warm-up) to the last arrival; absent: the whole run."""
    drain_s: float = 0.0
    """Last arrival to last answer."""
    whole_run_output_tokens_per_s: float = 0.0
    """Over `duration_s`, filling and drain included, as load generators report it."""
    throughput_requests_per_s: float
    output_tokens_per_s: float
    output_tokens_per_s_per_device: float
    total_tokens_per_s: float
    output_tokens_per_s_per_user: float
    """What one user sees: the inverse of the median TPOT."""
    ttft_s: Distribution
    tpot_s: Distribution
    itl_s: Distribution
    e2e_s: Distribution
    queue_s: Distribution
    slo_attainment: float
    """Share of requests that met the objective; 1 without one."""
    slo_met: bool
    goodput_requests_per_s: float
    kv_cache_usage_max: float
    kv_cache_usage_mean: float
    prefix_hit_rate: float
    """Prompt tokens found in the cache over all."""
    preemptions: int
    running_mean: float
    waiting_mean: float
    saturated: bool
    """Requests arrive faster than they are served: the figures depend on how long the run was."""
    num_devices: int
    instances: int
    capacity: dict[str, Any]
    """Cache of one instance: tokens, blocks, and where the memory went, bytes."""
    limits: dict[str, Any]
    """Batch limits and switches as resolved."""
    engine_log: dict[str, Any] = field(default_factory=dict)
    """What the engine of the first pool will log at its start (`engine_log.EngineLog`)."""
    iterations: dict[str, float]
    """Counts, mean seconds, tokens an iteration."""
    power: dict[str, Any] = field(default_factory=dict)
    cost_per_million_output_tokens: float | None = None
    bound_by: str = ""
    """What keeps the run from being faster, and why requests wait, in words."""
    composition: dict[str, dict[str, float]] = field(default_factory=dict)
    """Kind of iteration → class → seconds, at the run's mean batch."""
    mean_batch: dict[str, dict[str, float]] = field(default_factory=dict)
    """Kind of iteration → the batch of `composition`: pool (place in `serving.pools`), prompt_iterations, decoding
    (sequences), kv (their cached tokens), prompt_tokens, pairs and prompts of an iteration that holds prompts."""
    speculation: dict[str, Any] = field(default_factory=dict)
    """Method, drafted tokens a step, acceptance, tokens a step expected and made, share of time that drafts; empty
    without speculation."""
    pools: tuple[dict[str, Any], ...] = ()
    """Figures of each pool (`per_pool.PoolFigures`), where there are several."""
    transfer: dict[str, Any] = field(default_factory=dict)
    """KV caches moved from prefill to decode pools: how many; seconds after the prompt's end, waiting for blocks, and
    moving."""
    kv_tiers: dict[str, Any] = field(default_factory=dict)
    """With `kv.tiers`: of each KV tier the share of prompt tokens that it gave, loads, tokens in and out, busy time."""
    intervals: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Metric → {level, low, high, basis, grade}."""
    grades: dict[str, str] = field(default_factory=dict)
    assumed: tuple[dict[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()
    """Papers of the techniques used."""
    techniques: tuple[str, ...] = ()
    """Ids of those that the scenario names."""
    scenario: dict[str, Any] = field(default_factory=dict)
    input_hash: str = ""
    version: str = ""
    simulated_in_s: float = 0.0
    scaling: dict[str, Any] = field(default_factory=dict)
    """With `autoscale`: start-up time, instances over time, device-hours."""
    tenants: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name → requests, tokens, service received, latencies, attainment."""
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """With agents or searches: name → tasks, calls, latency from end to end, attainment; `all` is all of them."""
    fairness: dict[str, float] = field(default_factory=dict)
    """Between tenants: index and differences of service (`per_tenant.by_tenant`)."""
    table: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    """Columns by request."""
    record: Record | None = None
    """The run itself, for time series and traces."""

    def to_dict(self, *, table: bool = False) -> dict[str, Any]:
        """Plain data for `--json`; `table` adds the columns by request."""
        out: dict[str, Any] = {"schema_version": RESULT_SCHEMA}
        for f in fields(self):
            if f.name == "record" or (f.name == "table" and not table):
                continue
            value = getattr(self, f.name)
            out[f.name] = _plain(value.to_dict() if isinstance(value, Distribution) else value)
        return out

    def to_frame(self) -> Any:
        """Pandas frame, one row a request."""
        pd = extra("pandas")

        return pd.DataFrame(self.table)

    def _repr_html_(self) -> str:
        from windtunnel.serving.results.notebook import html

        return html(self)

    def __repr__(self) -> str:
        from windtunnel.serving.results.notebook import line

        return line(self)

    def figure(self) -> Panels:
        """Charts of the share of requests below each latency, and of requests and cache over time.

        A notebook shows them; `figure().save("run.svg")` writes them, `figure().spec()` is their Vega-Lite
        specification.
        """
        from windtunnel.serving.results.figure import serving_figure

        return serving_figure(self.table, self.record, title=self.scenario_name)

    def series_frame(self, slices: int = 300) -> Any:
        """Pandas frame, one row a slice of time: requests running and waiting, cache in use, tokens a second."""
        pd = extra("pandas")

        from windtunnel.serving.results.run_record import time_series

        if self.record is None:
            raise ValueError("a stored result has no time series: run its scenario again")
        return pd.DataFrame(time_series(self.record, slices).columns())


def _plain(value: Any) -> Any:
    """JSON-ready copy: arrays and tuples become lists, NaN and infinity become null."""
    if isinstance(value, (np.floating, float)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (np.integer, np.bool_)):
        return value.item()
    if isinstance(value, np.ndarray):
        return [_plain(v) for v in value.tolist()]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value
