"""A server in the engine's own loop: where it counts, and what it was fitted to."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from windtunnel import catalog
from windtunnel.cost.serving import serves_between_steps, serving_coefficients
from windtunnel.validation.predict.serving_run import run
from windtunnel.validation.rows.row_files import shipped_serving_rows
from windtunnel.validation.rows.serving_targets import served_value
from windtunnel_lab.fit.serving_cases import cases_of
from windtunnel_lab.reproduce.claims import served


@pytest.mark.parametrize(
    ("engine", "version", "inside"),
    [
        ("vllm", "0.2.1", True),
        ("vllm", "v0.5.3", True),
        ("vllm", "0.6.0", False),
        ("vllm", "", False),
        ("sglang", "0.2.1", False),
    ],
)
def test_releases_before_its_own_process_wait_for_the_server(engine: str, version: str, inside: bool) -> None:
    device = catalog.device("a100-sxm-80gb")
    assert serves_between_steps(engine, version) == inside
    assert (serving_coefficients(engine, version, device).stream_s > 0) == inside
    assert serving_coefficients(engine, version, device, streamed=False).stream_s == 0.0


def test_only_answers_that_are_streamed_wait_for_it() -> None:
    traffic = {"num_requests": 16, "input_tokens": 64, "output_tokens": 64}
    base = {"engine": "vllm", "engine_version": "0.2.1"}

    def seconds(load: dict[str, object], **more: object) -> float:
        serving = {**base, "traffic": {**traffic, **load}, **more}
        found = served({"model": "facebook/opt-13b", "cluster": {"device": "a100-sxm-80gb"}, "serving": serving})
        return float(np.max(found.table["e2e_s"]))

    closed = {"concurrency": 16}
    assert seconds(closed) > 1.1 * seconds(closed, streaming=False)
    assert seconds({"offline": True}) == seconds({"offline": True}, streaming=False)


def test_runs_of_opt_13b_are_met_with_the_server_and_missed_without() -> None:
    """Six runs of one session; the two of another took a fifth longer at light load already."""
    cases = [c for c in cases_of(shipped_serving_rows(), Path()) if not c.ids[0].endswith("-2")]
    assert len(cases) == 6
    errors: dict[bool, list[float]] = {True: [], False: []}
    for case in cases:
        own = case.ready.coefficients()
        for inside, c in ((True, own), (False, replace(own, stream_s=0.0))):
            value = served_value("tpot_mean_ms", run(case.ready, c))
            assert value is not None
            errors[inside].append(float(np.log(value / case.measured["tpot_mean_ms"])))
    assert np.abs(errors[True]).max() < 0.13
    assert np.mean(errors[False]) < -0.15
