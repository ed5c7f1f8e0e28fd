"""One serving scenario through the request loop, with coefficients of the caller's choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from windtunnel import catalog
from windtunnel.cost.serving import ServingCoefficients, serving_coefficients
from windtunnel.errors import Infeasible, ProblemList
from windtunnel.serving import engines, loop
from windtunnel.serving.deployment import lane_limits
from windtunnel.serving.engines import Instance
from windtunnel.serving.iteration import IterationModel, iteration_model
from windtunnel.serving.limits import Limits
from windtunnel.serving.requests import DONE, REJECTED, Floats, Requests
from windtunnel.serving.speculation import with_drafts
from windtunnel.serving.traffic import generate
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import PoolSpec, ServingSpec
from windtunnel.validation.reading.serving_trace import recorded
from windtunnel.validation.serving_metrics import Served

PASSES = 4
"""Turns between the two pools of a split deployment until waiting for a prompt and for a slot agree."""


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
            self.serving.engine, self.serving.engine_version, self.cluster.device, fitted=fitted
        )  # fmt: skip


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
        instance = engines.resolve(serving, spec, model, cluster, problems, f"serving.pools[{i}]")
        pools.append(Pool(spec, instance, instance.limits.most_tokens))
    problems.raise_if_any()
    return Ready(serving, model, cluster, tuple(pools), folder)


def cost(ready: Ready, pool: Pool, coefficients: ServingCoefficients, *, engine: bool) -> IterationModel:
    """The iteration of a pool's instance."""
    own = iteration_model(
        ready.model, ready.cluster, pool.instance.shape, coefficients, most_tokens=pool.most_tokens,
        expert_skew=ready.serving.expert_skew, cuda_graphs=pool.instance.cuda_graphs, engine=engine,
    )  # fmt: skip
    return with_drafts(
        own, pool.instance.drafting, ready.model, ready.cluster, pool.instance.shape, coefficients,
        skew=ready.serving.expert_skew, engine=engine,
    )  # fmt: skip


def limits(pool: Pool, own: IterationModel, concurrency: int) -> Limits:
    """What the loop reads."""
    return lane_limits(own, pool.instance, concurrency=concurrency)


def run(
    ready: Ready, coefficients: ServingCoefficients | None = None, *, costs: list[IterationModel] | None = None
) -> Served:  # fmt: skip
    """Serve the scenario's traffic.

    Args:
        ready: the scenario.
        coefficients: of the engine on the device; absent: the catalogue's.
        costs: iterations of the pools, where they are known already.
    """
    if costs is None:
        chosen = coefficients or ready.coefficients()
        costs = [cost(ready, pool, chosen, engine=False) for pool in ready.pools]  # equal to the engine's, by a test
    if len(ready.pools) > 1:
        return _split(ready, costs)
    pool, own = ready.pools[0], costs[0]
    requests = ready.requests()
    lanes = pool.spec.replicas * pool.instance.shape.pp
    given = limits(pool, own, ready.serving.traffic.concurrency or 0)
    table = own.tables(pool.most_tokens, pool.spec.limits.cuda_graph_sizes, given.max_seqs, given.ranks)
    outcome = loop.serve(requests, table, given, lanes)
    if ready.serving.traffic.offline:  # one process: no client, no HTTP
        own = replace(own, request_s=0.0)
    used = float(outcome.totals["kv_max"].max()) / max(pool.instance.limits.blocks // pool.instance.shape.pp, 1)
    return Served(requests, own.request_s, ready.devices, used, int(requests.preemptions.sum()))


def _split(ready: Ready, costs: list[IterationModel]) -> Served:
    """Prompts on one pool, answers on another, in a closed loop.

    Each pool runs through the loop on its own: the answering pool with the prompts' latency between a slot's requests,
    the prompt pool with the arrivals that this gives, in turn.
    """
    by_role = {pool.spec.role: (pool, own) for pool, own in zip(ready.pools, costs, strict=True)}
    (first, prompts), (second, answers) = by_role["prefill"], by_role["decode"]
    slots = ready.serving.traffic.concurrency or 0
    base = ready.requests()
    count = len(base)
    kept = (base.input_tokens - 1).astype(np.int32)
    wait = 0.0
    ours = limits(second, answers, 0)  # prompts arrive computed: nothing of theirs runs here but their last token
    ours = replace(ours, prompt_extra=0.0, prompt_token=0.0, ranks=1, mixed=True, chunked=True)
    sent: Floats = np.zeros(count)
    asked = Requests(sent, base.input_tokens, np.ones(count, np.int32))
    for _ in range(PASSES):
        made = Requests(np.full(count, np.nan), base.input_tokens, base.output_tokens, kept)
        made.delay_s = np.full(count, wait)
        loop.serve(made, answers.tables(second.most_tokens), replace(ours, concurrency=slots), _lanes(second))
        sent = np.maximum(made.arrival_s - wait, 0.0)
        sent[:slots] = 0.0
        asked = Requests(sent, base.input_tokens, np.ones(count, np.int32))
        loop.serve(asked, prompts.tables(first.most_tokens), limits(first, prompts, 0), _lanes(first))
        later = asked.first_token_s[slots:] - asked.arrival_s[slots:]
        wait = float(np.nanmean(later)) if len(later) else 0.0
    if (asked.state == REJECTED).any():
        raise Infeasible("a prompt needs more cache than a prefill instance has", "a larger tp, or shorter prompts")
    made = Requests(asked.first_token_s.copy(), base.input_tokens, base.output_tokens, kept)
    outcome = loop.serve(made, answers.tables(second.most_tokens), ours, _lanes(second))
    base.arrival_s, base.scheduled_s, base.first_token_s = sent, asked.scheduled_s, asked.first_token_s
    base.finish_s, base.preemptions = made.finish_s, made.preemptions
    base.state = np.where((asked.state == DONE) & (made.state == DONE), DONE, REJECTED).astype(np.int32)
    used = float(outcome.totals["kv_max"].max()) / max(second.instance.limits.blocks, 1)
    return Served(base, prompts.request_s, ready.devices, used, int(made.preemptions.sum()))


def _lanes(pool: Pool) -> int:
    return pool.spec.replicas * pool.instance.shape.pp
