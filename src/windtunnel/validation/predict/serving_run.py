"""One serving scenario through the request loop, with coefficients of the caller's choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from windtunnel import catalog
from windtunnel.cost.serving import ServingCoefficients, serving_coefficients
from windtunnel.errors import Infeasible, ProblemList
from windtunnel.serving import engine_defaults
from windtunnel.serving.deployment import lane_limits
from windtunnel.serving.engine_defaults import Instance
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.fleet import Fleet, stack_tables
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.requests import REJECTED, Requests
from windtunnel.serving.iteration.iteration_model import IterationModel, iteration_model
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.iteration.pipeline_stages import pipeline_stages
from windtunnel.serving.kv_transfer import lane_transfers, transfer_settings
from windtunnel.serving.speculation import with_drafts
from windtunnel.serving.traffic import generate
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import PoolSpec, ServingSpec
from windtunnel.validation.rows.parsing.serving_trace import recorded
from windtunnel.validation.rows.serving_targets import Served


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool, decided."""

    spec: PoolSpec
    instance: Instance
    most_tokens: int

    @property
    def devices(self) -> int:
        """Devices of all its instances."""
        return self.spec.replicas * self.spec.plan.num_devices


@dataclass(frozen=True, slots=True)
class Ready:
    """A scenario with everything decided but the coefficients."""

    serving: ServingSpec
    model: ModelSpec
    cluster: ClusterSpec
    pools: tuple[Pool, ...]
    folder: Path

    @property
    def devices(self) -> int:
        """Devices of all pools."""
        return sum(pool.devices for pool in self.pools)

    def requests(self) -> Requests:
        """A fresh copy of the traffic."""
        traffic = self.serving.traffic
        if traffic.trace is not None:
            return recorded(self.folder / traffic.trace)
        return generate(traffic, folder=self.folder).requests

    def coefficients(self, *, fitted: bool = True) -> ServingCoefficients:
        """Those of the catalogue, or the priors that a fit begins with."""
        return serving_coefficients(
            self.serving.engine,
            self.serving.engine_version,
            self.cluster.device,
            fitted=fitted,
            streamed=self.serving.streams,
        )


def ready(scenario: Scenario, folder: Path) -> Ready:
    """Look everything up.

    Raises:
        BadInput: the scenario contradicts itself.
        Infeasible: the model does not fit.
    """
    serving, model = scenario.serving, scenario.model
    assert serving is not None and isinstance(model, ModelSpec)
    cluster = catalog.resolve_cluster(scenario.cluster)
    problems = ProblemList()
    pools = []
    for i, spec in enumerate(serving.pools):
        instance = engine_defaults.resolve(serving, spec, model, cluster, problems, f"serving.pools[{i}]")
        pools.append(Pool(spec, instance, instance.limits.most_tokens))
    problems.raise_if_any()
    return Ready(serving, model, cluster, tuple(pools), folder)


def cost(
    ready: Ready, pool: Pool, coefficients: ServingCoefficients, *, engine: bool, layers: Layers | None = None
) -> IterationModel:
    """The iteration of a pool's instance."""
    if layers is None:
        layers = Layers(ready.model, ready.cluster, pool.instance.shape, coefficients, ready.serving.expert_skew)
    own = iteration_model(
        layers.under(coefficients), most_tokens=pool.most_tokens, cuda_graphs=pool.instance.cuda_graphs, engine=engine
    )
    return with_drafts(
        own,
        pool.instance.drafting,
        ready.model,
        ready.cluster,
        pool.instance.shape,
        coefficients,
        skew=ready.serving.expert_skew,
        engine=engine,
    )


def limits(pool: Pool, own: IterationModel, concurrency: int) -> Limits:
    """What the loop reads."""
    return lane_limits(own, pool.instance, concurrency=concurrency)


def run(
    ready: Ready, coefficients: ServingCoefficients | None = None, *, costs: list[IterationModel] | None = None
) -> Served:
    """Serve the scenario's traffic.

    Args:
        ready: the scenario.
        coefficients: of the engine on the device; absent: the catalogue's.
        costs: iterations of the pools, where they are known already.
    """
    if costs is None:
        chosen = coefficients or ready.coefficients()
        costs = [cost(ready, pool, chosen, engine=False) for pool in ready.pools]  # equal to the engine's, by a test
    if (
        ready.serving.traffic.concurrency or 0
    ) > 1:  # a benchmark's closed loop: what its requests wait for one another
        costs = [replace(own, request_s=own.request_s + own.coefficients.crowd_s) for own in costs]
    if len(ready.pools) > 1:
        return _split(ready, costs)
    pool, own = ready.pools[0], costs[0]
    requests = ready.requests()
    lanes = pool.spec.replicas * pool.instance.shape.pp
    given = limits(pool, own, ready.serving.traffic.concurrency or 0)
    table = own.tables(pool.most_tokens, pool.spec.limits.cuda_graph_sizes, given.max_seqs, given.ranks)
    outcome = loop.serve(requests, table, given, lanes, stages=pipeline_stages(own))
    if ready.serving.traffic.offline:  # one process: no client, no HTTP
        own = replace(own, request_s=0.0)
    used = float(outcome.totals["kv_max"].max()) / max(pool.instance.limits.blocks // pool.instance.shape.pp, 1)
    return Served(
        requests=requests,
        request_s=own.request_s,
        devices=ready.devices,
        cache_used=used,
        preemptions=int(requests.preemptions.sum()),
        totals=outcome.totals,
    )


@dataclass(frozen=True, slots=True)
class _Sited:
    """A pool as `kv_transfer.lane_transfers` reads it."""

    spec: PoolSpec
    cluster: ClusterSpec
    model: ModelSpec
    instance: Instance
    limits: Limits
    group: int = 0


def _split(ready: Ready, costs: list[IterationModel]) -> Served:
    """Serve with a prefill pool and a decode pool in one event loop; KV caches cross the network between them."""
    slots = ready.serving.traffic.concurrency or 0
    given = [limits(pool, own, slots) for pool, own in zip(ready.pools, costs, strict=True)]
    sited = [
        _Sited(pool.spec, ready.cluster, ready.model, pool.instance, x)
        for pool, x in zip(ready.pools, given, strict=True)
    ]
    way = transfer_settings(ready.serving, costs[0].request_s)
    counts = [_lanes(pool) for pool in ready.pools]
    fleet = Fleet(
        limits=tuple(given),
        tables=stack_tables(
            [
                own.tables(pool.most_tokens, pool.spec.limits.cuda_graph_sizes, x.max_seqs, x.ranks)
                for pool, own, x in zip(ready.pools, costs, given, strict=True)
            ]
        ),
        pool=np.repeat(np.arange(2), counts),
        prefill_only=np.repeat([True, False], counts),
        entries=counts[0],
        kv_transfer=lane_transfers(sited, ready.cluster, way, router=given[0].router),
        stages=tuple(map(pipeline_stages, costs)),
    )
    requests = ready.requests()
    outcome = loop.serve_fleet(requests, fleet)
    if (requests.state == REJECTED).any():
        raise Infeasible("a prompt needs more cache than an instance has", "a larger tp, or shorter prompts")
    used = float(outcome.totals["kv_max"][counts[0] :].max()) / max(given[1].blocks, 1)
    return Served(
        requests=requests,
        request_s=costs[0].request_s,
        devices=ready.devices,
        cache_used=used,
        preemptions=int(requests.preemptions.sum()),
    )


def _lanes(pool: Pool) -> int:
    return pool.spec.replicas * pool.instance.shape.pp
