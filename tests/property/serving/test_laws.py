"""Laws of queues and iterations: light load is the closed form, M/D/1, bandwidth never hurts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from windtunnel import catalog
from windtunnel.cost.serving import serving_coefficients
from windtunnel.errors import ProblemList
from windtunnel.serving import engine_defaults
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.iteration.iteration_model import IterationModel, iteration_model
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.serving import PoolSpec, ServingSpec
from windtunnel.specs.traffic import TrafficSpec

TRAFFIC = TrafficSpec(rate_per_s=1, input_tokens=1, output_tokens=1, num_requests=1)


def deployed(bandwidth: float = 1.0) -> tuple[IterationModel, Limits]:
    """Llama-3.1-8B on one H100, whose memory may be faster."""
    model = catalog.model("meta-llama/Llama-3.1-8B")
    cluster = catalog.resolve_cluster(ClusterRef(device="h100-sxm-80gb", nodes=1, devices_per_node=8))
    device = cluster.device.model_copy(update={"memory_bytes_per_s": bandwidth * cluster.device.memory_bytes_per_s})
    cluster = cluster.model_copy(update={"device": device})
    own = engine_defaults.resolve(ServingSpec(traffic=TRAFFIC), PoolSpec(), model, cluster, ProblemList())
    c = serving_coefficients("vllm", "", device)
    model_s = iteration_model(Layers(model, cluster, own.shape, c), most_tokens=own.limits.budget + own.limits.max_seqs)
    model_s = replace(model_s, captured=own.limits.captured)
    limits = replace(
        own.limits,
        pair_s=model_s.prefill_pair_s,
        kv_s=model_s.decode_kv_s,
        per_sequence_s=model_s.per_sequence_s,
        prompt_floor_s=model_s.prefill_floor_s,
    )
    return model_s, limits


def test_light_load_is_the_closed_form() -> None:
    model_s, limits = deployed()
    inputs, outputs = np.array([500, 3000, 40], np.int32), np.array([20, 2, 300], np.int32)
    requests = Requests(arrival_s=np.arange(3) * 1000.0, input_tokens=inputs, output_tokens=outputs)
    loop.serve(requests, model_s.table(limits.budget + limits.max_seqs), limits, 1)
    for i in range(3):
        n, m = int(inputs[i]), int(outputs[i])
        first = model_s.seconds(n, pairs=0.5 * n * n, prompt_tokens=n)
        assert requests.first_token_s[i] - requests.arrival_s[i] == pytest.approx(first, rel=1e-9)
        rest = sum(model_s.seconds(1, kv=n + j) for j in range(1, m))
        assert requests.finish_s[i] - requests.first_token_s[i] == pytest.approx(rest, rel=1e-6)


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.8])
def test_constant_service_and_poisson_arrivals_wait_as_m_d_1(rho: float) -> None:
    """Mean wait rho / (2 mu (1 − rho)) (Pollaczek and Khinchine); one request at a time, one token answers."""
    service, count = 0.05, 400_000
    gaps = np.random.default_rng(3).exponential(service / rho, count)
    requests = Requests(
        arrival_s=np.cumsum(gaps), input_tokens=np.full(count, 10, np.int32), output_tokens=np.full(count, 1, np.int32)
    )
    limits = Limits(max_seqs=1, static=True, mixed=False, chunked=False)
    loop.serve(requests, np.full(9000, service), limits, 1)
    wait = (requests.scheduled_s - requests.arrival_s).mean()
    assert wait == pytest.approx(rho * service / (2 * (1 - rho)), rel=0.02)


def test_mean_iteration_at_a_fixed_batch_never_grows_with_bandwidth() -> None:
    means = []
    for factor in (0.5, 1.0, 1.5, 3.0):
        model_s, limits = deployed(factor)
        requests = Requests(
            arrival_s=np.full(64, np.nan),
            input_tokens=np.full(64, 900, np.int32),
            output_tokens=np.full(64, 200, np.int32),
        )
        closed = replace(limits, concurrency=32)
        outcome = loop.serve(requests, model_s.table(limits.budget + limits.max_seqs), closed, 1)
        means.append(outcome.totals["busy_s"].sum() / outcome.totals["iterations"].sum())
    assert (np.diff(means) <= 0).all()
    assert means[0] > 1.3 * means[1]  # decoding reads memory
