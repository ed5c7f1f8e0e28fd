"""Data-sheet rates and coefficients behind a server's iterations."""

from __future__ import annotations

import json

import pytest

from windtunnel import api
from windtunnel.cli.main import run
from windtunnel.cost.serving import serving_coefficients
from windtunnel.cost.serving_provenance import flat, serving_provenance

SERVED = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "serving": {
        "engine": "vllm",
        "pools": [{"replicas": 1, "plan": {"tp": 1}}],
        "traffic": {"rate_per_s": 4, "num_requests": 60, "input_tokens": 512, "output_tokens": 64},
    },
}


def test_an_iteration_is_explained_at_the_batch_of_the_run() -> None:
    told = api.explain_serving(SERVED).to_dict()
    own = api.simulate_serving(SERVED)
    assert told["ttft_s"] == own.to_dict()["ttft_s"]
    for one in told["iterations"]:
        assert {c["class"]: c["seconds"] for c in one["classes"]} == own.composition[one["kind"]]
        assert one["seconds"] == pytest.approx(sum(c["share"] for c in one["classes"]) * one["seconds"])
        assert all(x["source"] and x["grade"] in ("measured", "fitted", "analytic", "assumed") for x in one["inputs"])


def test_time_has_no_source_but_rates_and_seconds() -> None:
    """On one device nothing but data-sheet rates and coefficients in seconds has time in its unit (Euler's theorem)."""
    for one in api.explain_serving(SERVED).iterations:
        rates = sum(x.exponent for x in one.inputs if x.kind == "data sheet")
        seconds = sum(x.exponent for x in one.inputs if x.kind == "coefficient" and x.unit == "s")
        assert seconds - rates == pytest.approx(1.0, abs=0.01)


def test_an_exponent_is_what_a_faster_device_gives() -> None:
    decode = api.explain_serving(SERVED).iterations[0]
    memory = next(x for x in decode.inputs if x.name == "device memory bandwidth")
    host = next(x for x in decode.inputs if x.name == "host_s")
    assert memory.value == 3.35e12 and -0.8 < memory.exponent < -0.6
    assert host.exponent == pytest.approx(decode.classes["host"] / decode.seconds, rel=0.02)


def test_coefficients_stand_with_their_sources() -> None:
    from windtunnel import catalog

    device = catalog.device("h100-sxm-80gb")
    found = serving_provenance("vllm", "", device)
    own = flat(serving_coefficients("vllm", "", device))
    assert {name: c.value for name, c in found.items()} == {name: v for name, v in own.items() if v}
    assert "rows" in found["sequence_s"].source and found["sequence_s"].relative_error
    assert "vllm.yaml" in found["host_s"].source


def test_the_terminal_explains_a_server(tmp_path: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{tmp_path}/s.json"
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(SERVED, stream)
    assert run(["explain", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["iterations"] == api.explain_serving(SERVED).to_dict()["iterations"]
    assert run(["explain", path]) == 0
    assert "device memory bandwidth" in capsys.readouterr().out
    assert run(["explain", path, "--class", "gemm"]) == 2
