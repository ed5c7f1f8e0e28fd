"""Papers of split pools: what is cheap to check here; `reproduce` runs the sweeps."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from windtunnel_lab.papers.distserve import experiment as distserve
from windtunnel_lab.papers.mi325x_inference import experiment as mi325x
from windtunnel_lab.papers.splitwise import experiment as splitwise
from windtunnel_lab.reproduce.claims import holds
from windtunnel_lab.reproduce.settings import central


@pytest.mark.parametrize("paper", ["distserve", "splitwise", "mi325x_inference"])
def test_claims_have_measures_and_open_settings_exist(paper: str) -> None:
    experiment = import_module(f"windtunnel_lab.papers.{paper}.experiment")
    setting = experiment.EXPERIMENT.setting
    assert set(setting["claims"]) == set(experiment.measures())
    for claim in setting["claims"].values():
        assert set(claim.get("sweep", ())) <= set(setting["open"])


MI325X = {"llama/e2e-10": True, "llama/e2e-50": False, "llama/e2e-100": False, "llama/curve": False}
"""Whether each holds; those that do not say what is missing."""


@pytest.mark.parametrize("key", MI325X)
def test_claims_of_the_mi325x_study(key: str) -> None:
    claim = mi325x.EXPERIMENT.setting["claims"][key]
    value = mi325x.measures()[key](central(mi325x.EXPERIMENT.setting))
    assert holds(claim["within"], value, float(claim["published"])) == MI325X[key], value
    assert MI325X[key] or claim["missing"]


@pytest.mark.parametrize("key", ["cost/aa-over-h100", "capped/tokens", "transfer/share"])
def test_claims_of_splitwise_that_hold(key: str) -> None:
    claim = splitwise.EXPERIMENT.setting["claims"][key]
    value = splitwise.measures()[key](central(splitwise.EXPERIMENT.setting))
    assert holds(claim["within"], value, float(claim["published"])), value


def test_a_machine_with_nothing_else_to_do_is_not_slowed_down() -> None:
    values = central(splitwise.EXPERIMENT.setting)
    r = splitwise.served(splitwise.scenario("a100", 1, 0, 0.005, values))
    own = splitwise.alone(r, values)
    seen = splitwise.seen(r)
    for name in ("ttft", "e2e"):
        assert np.nanmedian(seen[name] / own[name]) == pytest.approx(1.0, abs=0.02)
    assert splitwise.within(r, values)


def test_rates_within_objectives_are_crossings() -> None:
    asked = distserve.fixed("attainment")
    falls = distserve.crossing(lambda x: 1.0 if x < 0.7 else asked - 0.01, 0.01, 10.0, rising=False)
    rises = distserve.crossing(lambda x: float(x > 3.0), 0.05, 100.0, rising=True)
    assert (falls, rises) == (pytest.approx(0.7, rel=0.02), pytest.approx(3.0, rel=0.02))


def test_passes_lie_between_the_authors_fits_of_both_engines() -> None:
    """Prompts of 755 tokens, within 6 % (simdistserve, profiler-a100-80g.distserve.json and .vllm.json)."""
    from windtunnel.serving.deployment import prepare

    values = central(distserve.EXPERIMENT.setting)
    for case, own_s, vllm_s in (("sharegpt-13b", 0.0991, 0.1422), ("sharegpt-66b", 0.1484, 0.1642)):
        m = prepare(distserve.scenario("vllm", case, 1.0, 1, values)).iteration
        assert 0.94 * own_s < m.seconds(755.0, pairs=755.0**2 / 2, prompt_tokens=755.0) < 1.06 * vllm_s


def test_long_prompts_alone_take_what_long_prompts_take() -> None:
    """Within 20 % of the authors' measured medians on eight A100, Llama-2-70B (splitwise-sim data/perf_model.csv)."""
    r = splitwise.served(splitwise.scenario("a100", 1, 0, 0.005, central(splitwise.EXPERIMENT.setting)))
    own = splitwise.alone(r, central(splitwise.EXPERIMENT.setting))["ttft"]
    prompts = r.table["input_tokens"]
    for tokens, measured_s in ((2048, 0.274), (4096, 0.661)):
        assert np.interp(tokens, np.sort(prompts), np.sort(own)) == pytest.approx(measured_s, rel=0.2)
