"""Drawn servers: as far off as the bands of a run say, and together as measured pairs of rows are."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel.commands.draws import normal, uniform
from windtunnel.serving.deployment import prepare
from windtunnel.serving.results.build_result import ServedRun, build_result, drawn_result
from windtunnel.serving.results.drawn_server import drawn_server
from windtunnel.serving.results.joint_draws import MEASURES
from windtunnel.serving.results.residual_bands import paired_band
from windtunnel.serving.simulate import run_requests, with_traffic

SCENARIO = Path(__file__).parents[3] / "examples" / "serving" / "llama3-70b-4xh100.yaml"
DRAWS = 1500
NAMES = {"ttft_s": "ttft", "tpot_s": "tpot", "e2e_s": "e2e", "output_tokens_per_s": "throughput"}


def served(*overrides: str) -> ServedRun:
    d, traffic = with_traffic(prepare(SCENARIO, overrides=("serving.traffic.num_requests=300", *overrides)))
    return run_requests(d, traffic.requests, assumed=traffic.assumed)


def factors(run: ServedRun, case: str, draws: int = DRAWS) -> dict[str, np.ndarray]:
    """(draws,) measured over predicted value of each measure."""
    seen: list[dict[str, float]] = []
    shape: list[Any] = []

    def note(*of: Any) -> dict[str, float]:
        shape.append(of)
        return dict.fromkeys(MEASURES, 1.0)

    drawn_result(run, note)
    for k in range(draws):
        server = drawn_server(run.deployment, case, partial(uniform, 3, k), partial(normal, 3, k))
        seen.append(dict(server(*shape[0])))
    return {name: np.array([one[name] for one in seen]) for name in MEASURES}


CLOSED = ("serving.traffic.rate_per_s=null", "serving.traffic.concurrency=32")
OFFLINE = ("serving.traffic.rate_per_s=null", "serving.traffic.offline=true")


@pytest.mark.parametrize("overrides", [(), CLOSED, OFFLINE])
def test_draws_spread_as_the_bands_of_the_run(overrides: tuple[str, ...]) -> None:
    """The ends of a band, of 80 %, are quantiles of the draws, within a tenth of the band's width."""
    run = served(*overrides)
    result = build_result(run)
    found = factors(run, "one")
    for name, measure in NAMES.items():
        band = result.intervals[name]
        value = getattr(result, name)
        predicted = value if isinstance(value, float) else value.mean
        ends = math.log(band["low"] / predicted), math.log(band["high"] / predicted)
        low, high = np.log(np.quantile(found[measure], [0.1, 0.9]))
        width = max(ends[1] - ends[0], 1e-3)
        assert min(low, 0.0) == pytest.approx(ends[0], abs=0.1 * width), (name, low, ends)
        assert max(high, 0.0) == pytest.approx(ends[1], abs=0.1 * width), (name, high, ends)


def test_a_drawn_result_follows_from_its_factors() -> None:
    """Means, cost and tokens a second change by what was drawn; the loop is not run again."""
    run = served()
    plain = build_result(run)
    given = {"ttft": 1.5, "tpot": 1.2, "e2e": 0.0, "throughput": 0.9}
    drawn = drawn_result(run, lambda shape, full: given)
    assert drawn.ttft_s.p99 == pytest.approx(1.5 * plain.ttft_s.p99)
    assert drawn.tpot_s.mean == pytest.approx(1.2 * plain.tpot_s.mean)
    assert drawn.itl_s.p50 == pytest.approx(1.2 * plain.itl_s.p50)
    rest = plain.e2e_s.mean - plain.ttft_s.mean
    assert drawn.e2e_s.mean == pytest.approx(1.5 * plain.ttft_s.mean + 1.2 * rest)
    assert drawn.output_tokens_per_s == pytest.approx(0.9 * plain.output_tokens_per_s)
    assert drawn.cost_per_million_output_tokens == pytest.approx(plain.cost_per_million_output_tokens / 0.9)
    assert drawn.slo_attainment <= plain.slo_attainment
    assert drawn.intervals == {} and plain.intervals
    same = drawn_result(run, lambda shape, full: dict.fromkeys(MEASURES, 1.0))
    assert same.ttft_s == plain.ttft_s and same.output_tokens_per_s == plain.output_tokens_per_s


def test_draws_are_paired() -> None:
    """Runs of one model on one device are off together most, those of another model there by their site alone."""
    one, other = served(), served("serving.pools.0.limits.max_num_seqs=64")
    far = served("model=Qwen/Qwen3-32B")
    a, b, c = (np.log(factors(run, name, 600)["tpot"]) for run, name in ((one, "a"), (other, "b"), (far, "c")))
    assert np.array_equal(a, np.log(factors(one, "a", 600)["tpot"]))
    assert np.std(a - b) < np.std(a - c) < math.sqrt(2.0) * np.std(a)


@pytest.mark.parametrize("measure", ["ttft", "tpot"])
def test_ratios_spread_as_measured_pairs_do(measure: str) -> None:
    """80 % of drawn ratios of two runs of one group: within 30 % of the width that `compare` says."""
    run = served()
    ratio = np.log(factors(run, "a")[measure] / factors(run, "b")[measure])
    width = np.ptp(np.quantile(ratio, [0.1, 0.9]))
    band = paired_band(measure)
    assert band is not None
    assert width == pytest.approx(math.log(band.high / band.low), rel=0.3)
