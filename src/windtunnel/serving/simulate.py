"""From a scenario to a serving prediction: look up, resolve instances, make traffic, run, measure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.arrays import Int32s
from windtunnel.errors import BadInput
from windtunnel.kernel_cache import compile_seconds
from windtunnel.scenarios.source import Source
from windtunnel.serving.autoscale.replicas import Replicas
from windtunnel.serving.autoscale.resize import Elastic
from windtunnel.serving.autoscale.start_up import StartUp
from windtunnel.serving.deployment import Deployment, prepare, with_longer_tables
from windtunnel.serving.engine_defaults import version_of
from windtunnel.serving.event_loop import run as event_loop
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.prefix_chains import chains_of
from windtunnel.serving.event_loop.program_rest import rest_of_programs
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.event_loop.swapping import swaps_of
from windtunnel.serving.kv_tiers.twin_memory import Memory
from windtunnel.serving.results.build_result import ServedRun, build_result, run_span_s
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.run_setup.autoscale import scaler, scaling, sizes
from windtunnel.serving.run_setup.front_end import FrontEnd, behind, front_end_of, has_stated_arrivals
from windtunnel.serving.run_setup.kv_tiers import memory_of
from windtunnel.serving.run_setup.multi_model import model_rules
from windtunnel.serving.run_setup.python_hooks import Hooks, hooks_of
from windtunnel.serving.run_setup.sm_shares import shares_of

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.fleet import Fleet
    from windtunnel.serving.event_loop.prefix_chains import Chains
    from windtunnel.serving.event_loop.twin.batch_policy import Policy
    from windtunnel.serving.traffic import Traffic

KEEP_EVENTS_BELOW = 200_000
"""Number of requests up to which every event is kept for charts; beyond it, one event in several."""


def simulate_serving(source: Source, *, overrides: Sequence[str] = ()) -> ServingResult:
    """Simulate serving request by request.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: `key=value` settings as `--set` takes them.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: the model does not fit.

    Example:
        >>> import windtunnel as wt
        >>> r = wt.simulate_serving("examples/serving/llama3-70b-4xh100.yaml")  # doctest: +SKIP
    """
    begun, compiled_s = time.perf_counter(), compile_seconds()
    d, traffic = with_traffic(prepare(source, overrides=overrides))
    result = serve_requests(d, traffic.requests, assumed=traffic.assumed)
    return replace(result, simulated_in_s=time.perf_counter() - begun - (compile_seconds() - compiled_s))


def with_traffic(d: Deployment) -> tuple[Deployment, Traffic]:
    """Draw or read a deployment's traffic; a recorded benchmark also sets how the deployment's requests are sent.

    Raises:
        BadInput: everything wrong with a trace or the settings beside it, with its place in the scenario.
    """
    from windtunnel.serving.traffic import generate

    try:
        traffic = generate(d.serving.traffic, folder=d.folder)
    except BadInput as error:
        raise error.located(d.lines) from None
    if traffic.spec != d.serving.traffic:
        serving = d.serving.model_copy(update={"traffic": traffic.spec})
        d = replace(d, serving=serving, concurrency=traffic.concurrency)
    return d, traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoopInputs:
    """What the request loop runs on, beside the requests."""

    fleet: Fleet
    chains: Chains | None
    """Content that prompts share; None where nothing is cached."""
    control: Replicas | Elastic | None
    """Autoscaler; None without `autoscale`."""
    start_up: StartUp | None
    """Start-up time that the autoscaler counts with."""
    memory: Memory | None
    """KV tiers; None where no pool has any."""
    hooks: list[Hooks]
    """Python rules by pool; empty where the jitted loop has all that is asked for."""


def serve_requests(
    d: Deployment, requests: Requests, *, assumed: tuple[tuple[str, Any, str], ...] = ()
) -> ServingResult:
    """Serve given requests on a resolved deployment.

    Args:
        d: what serves.
        requests: what is sent; times are written into it.
        assumed: (field, value, why) of the traffic.
    """
    return build_result(run_requests(d, requests, assumed=assumed))


def run_requests(d: Deployment, requests: Requests, *, assumed: tuple[tuple[str, Any, str], ...] = ()) -> ServedRun:
    """Run given requests on a resolved deployment: what `build_result` and `drawn_result` compute results from.

    Args:
        d: what serves.
        requests: what is sent; times are written into it.
        assumed: (field, value, why) of the traffic.
    """
    count = len(requests)
    every = 1 if count <= KEEP_EVENTS_BELOW else -(-count // KEEP_EVENTS_BELOW)
    if count:
        longest = int((requests.input_tokens + requests.output_tokens).max())
        d = with_longer_tables(d, min(longest, d.instance.max_model_len or longest))
    fleet = d.fleet(every)
    chains = chains_of(requests, fleet.block, d.serving.traffic.shared_prefix_tokens) if fleet.caching else None
    sent, notes = limit_lengths(d, requests)
    inputs = _loop_inputs(d, requests, fleet, chains, every)
    if d.instance.queue.id == "fcfs" and requests.priority.any():
        requests.priority = np.zeros(count, np.int32)
    outcome, more = _behind_front_end(d, requests, inputs, notes)
    assumed += more
    requests.input_tokens = sent
    scaled: dict[str, Any] = {}
    held_share, (first_s, finish_s) = 1.0, run_span_s(requests)
    if inputs.control is not None and inputs.start_up is not None:
        scaled = scaling(inputs.control, inputs.start_up, d.pool.plan.num_devices, first_s, finish_s)
        held_share = inputs.control.instance_seconds(finish_s) / max(d.pool.replicas * finish_s, 1e-12)
        assumed += inputs.start_up.assumed
    return ServedRun(
        deployment=d,
        requests=requests,
        outcome=outcome,
        every=every,
        assumed=assumed,
        notes=tuple(notes),
        scaling=scaled if inputs.control is not None else None,
        held_share=held_share,
        memory=inputs.memory,
    )


def needs_reference_loop(d: Deployment) -> bool:
    """Whether a deployment has rules that the jitted loop has not."""
    scaled = d.serving.autoscale is not None
    return scaled or memory_of(d, d.fleet(0).pool.tolist()) is not None or _needs_python(d)


def _loop_inputs(d: Deployment, requests: Requests, fleet: Fleet, chains: Chains | None, every: int) -> _LoopInputs:
    control: Replicas | Elastic | None
    control, start_up = scaler(d)
    if (resized := sizes(d, every)) is not None:
        fleet, control, start_up = resized
    memory = memory_of(d, fleet.pool.tolist())
    in_python = control is not None or memory is not None or _needs_python(d)
    found = [hooks_of(p.instance, d.serving, d.limits, len(requests), needs_python=in_python) for p in d.pools]
    hooks = [one for one in found if one is not None] if found[0] is not None else []
    if hooks:
        layers = d.model.num_hidden_layers // d.pool.plan.pp
        queue = hooks[0].queue
        if queue.reads_programs:
            queue.context = replace(queue.context, rest=rest_of_programs(requests))
        queue.swaps = swaps_of(d.serving.pools[0].kv.swap, d.limits, layers)
    return _LoopInputs(fleet=fleet, chains=chains, control=control, start_up=start_up, memory=memory, hooks=hooks)


def _run(d: Deployment, requests: Requests, inputs: _LoopInputs) -> event_loop.Outcome:
    """Run the request loop that the deployment needs; times are written into `requests`."""
    if d.serving.mesh is not None:
        return event_loop.serve_fleet_in_python(requests, inputs.fleet, model_rules(d, inputs.fleet))
    if not inputs.hooks:
        return event_loop.serve_fleet(requests, inputs.fleet, inputs.chains)
    first = inputs.hooks[0]
    return event_loop.serve_fleet_in_python(
        requests,
        inputs.fleet,
        LoopRules(
            policies=_policies([one.policy for one in inputs.hooks], inputs.fleet),
            router=first.router,
            queue=first.queue,
            admission=first.admission,
            pace=first.pace,
            control=inputs.control,
            memory=inputs.memory,
            execution=shares_of([d], inputs.fleet, inputs.memory),
        ),
        chains=inputs.chains,
    )


def _behind_front_end(
    d: Deployment, requests: Requests, inputs: _LoopInputs, notes: list[str]
) -> tuple[event_loop.Outcome, tuple[tuple[str, Any, str], ...]]:
    """Run the request loop behind the server's front end, where one is known; return also what was assumed of it."""
    front = _front_end(d, requests, inputs)
    if front is None:
        return _run(d, requests, inputs), ()
    outcome, waited_s = behind(front, requests, lambda own: _run(d, own, inputs))
    if not waited_s:
        return outcome, ()
    rate = front.requests_per_s(float(np.mean(requests.output_tokens)))
    notes.append(
        f"requests and tokens wait up to {waited_s:,.2f} s in the front end: {front.servers} API server(s) take "
        f"{rate:,.0f} requests a second"
    )
    return outcome, (("front end, requests a second", round(rate, 1), front.source),)


def _front_end(d: Deployment, requests: Requests, inputs: _LoopInputs) -> FrontEnd | None:
    """Return what stands before the engines; None where nothing is known of it, or the run cannot be repeated."""
    if inputs.hooks or inputs.control is not None or d.serving.mesh is not None:
        return None
    if not has_stated_arrivals(requests, d.concurrency, offline=d.serving.traffic.offline):
        return None
    servers = sum(p.spec.replicas * p.spec.plan.dp for p in d.pools if p.spec.role != "decode")
    found = front_end_of(d.serving, version_of(d.serving.engine_version), servers)
    return None if found is None else found.times(d.iteration.coefficients.front_end)


def _policies(own: list[Policy], fleet: Fleet) -> list[Policy]:
    """Return one policy for each pool of the fleet: all sizes of one instance share its policy."""
    return own * len(fleet.limits) if len(own) == 1 else own


def limit_lengths(d: Deployment, requests: Requests) -> tuple[Int32s, list[str]]:
    """Limit requests to `max_model_len` as engines do: longer prompts are rejected, longer answers end there.

    Returns:
        Tokens of the prompts as they were sent (prompts to be rejected are made too long for the cache), and notes
        for the result.
    """
    sent, longest = requests.input_tokens, d.instance.max_model_len
    if not longest:
        return sent, []
    notes = []
    over = sent >= longest
    if over.any():
        lanes = d.lanes if any(p.spec.kv.lending for p in d.pools) else 1  # all lanes may hold one prompt together
        beyond = min(d.limits.blocks * d.limits.block * lanes + 1, 2**31 - 2)
        requests.input_tokens = np.where(over, beyond, sent).astype(np.int32)
        notes.append(f"{int(over.sum()):,} prompts are longer than max_model_len {longest:,}: they were rejected")
    room = np.where(over, requests.output_tokens, np.maximum(longest - sent, 1))
    late = requests.output_tokens > room
    if late.any():
        requests.output_tokens = np.minimum(requests.output_tokens, room).astype(np.int32)
        notes.append(f"{int(late.sum()):,} answers end at max_model_len {longest:,}")
    return sent, notes


def _needs_python(d: Deployment) -> bool:
    """Tell whether a rule of some pool is written in Python."""
    if d.serving.mesh is not None or any(p.spec.sm_split is not None for p in d.pools):
        return True
    return any(
        p.iteration.overlap is not None or hooks_of(p.instance, d.serving, p.limits, 0) is not None for p in d.pools
    )
