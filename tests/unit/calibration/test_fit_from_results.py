"""Profiles from results of a server: known coefficients come back, and what loads do not tell apart stays and is told.

The results are made from the simulator itself, in the form of `vllm bench serve --save-result`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import windtunnel as wt
from windtunnel.calibration.profile import write_device
from windtunnel.calibration.server_fit import INFORMED, ServerFit, fit_server
from windtunnel.calibration.server_results import read_loads
from windtunnel.cli.main import run

SCENARIO: dict[str, Any] = {
    "name": "server",
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
    "serving": {
        "engine": "vllm",
        "engine_version": "0.10.0",
        "pools": [{"replicas": 1, "limits": {"max_num_seqs": 256, "max_num_batched_tokens": 8192}}],
        "traffic": {"concurrency": 8, "num_requests": 100, "input_tokens": 512, "output_tokens": 64},
    },
}
LOADS = ((1, 256, 128), (1, 4096, 16), (16, 256, 256), (64, 512, 128), (128, 2048, 32), (32, 8000, 64))


def _server(folder: Path, changed: dict[str, float]) -> tuple[Path, Path]:
    """A scenario, and the same on a device whose profile has other coefficients."""
    base, true = folder / "server.yaml", folder / "true.yaml"
    base.write_text(yaml.safe_dump(SCENARIO))
    own = {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1}
    device = wt.catalog.device("h100-sxm-80gb").model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    device["profile"] = {"serving": changed}
    (folder / "device.yaml").write_text(yaml.safe_dump(device))
    true.write_text(yaml.safe_dump({**SCENARIO, "cluster": {**own, "device": "device.yaml"}}))
    return base, true


def _result(folder: Path, true: Path, load: tuple[int, int, int]) -> Path:
    """What a benchmark of one load prints of a server."""
    slots, inputs, outputs = load
    count = 3 * slots + 8
    traffic = {"concurrency": slots, "num_requests": count, "input_tokens": inputs, "output_tokens": outputs}
    found = wt.simulate_serving(true, overrides=[f"serving.traffic={json.dumps(traffic)}"])
    file = folder / f"c{slots}-{inputs}-{outputs}.json"
    data = {
        "backend": "vllm",
        "completed": count,
        "failed": 0,
        "total_input_tokens": count * inputs,
        "total_output_tokens": count * outputs,
        "request_rate": "inf",
        "max_concurrency": slots,
        "request_throughput": count / found.duration_s,
        "output_throughput": count * outputs / found.duration_s,
        "mean_ttft_ms": found.ttft_s.mean * 1e3,
        "median_ttft_ms": found.ttft_s.p50 * 1e3,
        "mean_tpot_ms": found.tpot_s.mean * 1e3,
    }
    file.write_text(json.dumps(data))
    return file


def _fit(folder: Path, changed: dict[str, float], loads: tuple[tuple[int, int, int], ...] = LOADS) -> ServerFit:
    base, true = _server(folder, changed)
    return fit_server(read_loads([_result(folder, true, load) for load in loads], base), "tests")


def _catalogue(folder: Path, name: str) -> float:
    from windtunnel.cost.serving import serving_coefficients
    from windtunnel.cost.serving_provenance import flat

    return flat(serving_coefficients("vllm", "0.10.0", wt.catalog.device("h100-sxm-80gb")))[name]


def test_a_server_with_known_coefficients_comes_back(tmp_path: Path) -> None:
    names = {"host_s": 2.0, "matrix_fraction.bf16": 0.8, "request_s": 1.6}
    true = {name: factor * _catalogue(tmp_path, name) for name, factor in names.items()}
    found = _fit(tmp_path, true)
    fitted = {f.name: f for f in found.fitted}
    for name in ("matrix_fraction.bf16",):
        low, high = fitted[name].interval
        assert low <= true[name] <= high and abs(fitted[name].value / true[name] - 1.0) < 0.06
        assert fitted[name].deviation < INFORMED * fitted[name].prior_deviation
    assert found.mean_error("before") > 0.05
    assert found.mean_error("after") < 0.25 * found.mean_error("before")
    assert found.mean_error("left_out") < 0.6 * found.mean_error("before")
    assert {"all_reduce_s", "expert_bytes_fraction.bf16"} <= set(found.silent)


def test_an_unchanged_server_keeps_its_coefficients(tmp_path: Path) -> None:
    found = _fit(tmp_path, {})
    assert found.fitted and all(f.value == pytest.approx(f.prior, rel=0.03) for f in found.fitted)
    assert found.mean_error("before") < 0.01 and not [w for w in found.warnings if "off even" in w]


def test_a_load_that_cannot_tell_two_coefficients_apart_says_so(tmp_path: Path) -> None:
    found = _fit(tmp_path, {"host_s": 2.0 * _catalogue(tmp_path, "host_s")}, loads=((1, 64, 256),))
    moved = {f.name for f in found.fitted}
    assert found.confounded and set(found.confounded.values()) <= moved
    assert not moved & set(found.confounded)
    assert found.figures[0].left_out is None and any(w.startswith("1 load") for w in found.warnings)


def test_the_written_profile_serves_what_the_fit_promised(tmp_path: Path) -> None:
    found = _fit(tmp_path, {"host_s": 2.0 * _catalogue(tmp_path, "host_s")}, loads=LOADS[:3])
    write_device(found.device, tmp_path / "mine.yaml")
    slots, inputs, outputs = LOADS[2]
    traffic = {"concurrency": slots, "num_requests": 3 * slots + 8, "input_tokens": inputs, "output_tokens": outputs}
    again = wt.simulate_serving(
        tmp_path / "server.yaml", overrides=["cluster.device=mine.yaml", f"serving.traffic={json.dumps(traffic)}"]
    )
    promised = next(f for f in found.figures if f.load.startswith("c16-") and f.name == "tpot_mean_s")
    assert again.tpot_s.mean == pytest.approx(promised.after, rel=1e-6)


def test_the_command_writes_a_profile_and_plain_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    base, true = _server(tmp_path, {"host_s": 0.01})
    files = [_result(tmp_path, true, load) for load in LOADS[2:4]]
    monkeypatch.chdir(tmp_path)
    assert run(["calibrate", "--from", str(files[0]), str(files[1]), str(base), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["fitted"] and data["mean_error"]["steps"]["after"] < data["mean_error"]["steps"]["before"]
    assert yaml.safe_load((tmp_path / "machine.yaml").read_text())["profile"]["serving"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{not json", "is in no format that is recognised"),
        ('{"completed": 0, "total_input_tokens": 1, "request_throughput": 1.0}', "completed"),
        (
            '{"completed": 4, "total_input_tokens": 64, "total_output_tokens": 64, "request_throughput": 0,'
            ' "max_concurrency": 2}',
            "holds no measured TTFT",
        ),
    ],
)
def test_wrong_files_are_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    base, _ = _server(tmp_path, {})
    file = tmp_path / "wrong.json"
    file.write_text(content)
    out = tmp_path / "out.yaml"
    assert run(["calibrate", "--from", "results", str(file), "--scenario", str(base), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error and len(error.strip().splitlines()) == 1
    assert not out.exists()


def test_a_slow_front_end_comes_back_from_a_rate_that_it_cannot_take(tmp_path: Path) -> None:
    base, true = _server(tmp_path, {"front_end": 1.5})
    traffic = {"rate_per_s": 200, "num_requests": 1500, "input_tokens": 128, "output_tokens": 128}
    found = wt.simulate_serving(true, overrides=[f"serving.traffic={json.dumps(traffic)}"])
    data = {
        "completed": 1500,
        "total_input_tokens": 1500 * 128,
        "total_output_tokens": 1500 * 128,
        "request_rate": 200,
        "request_throughput": 1500 / found.duration_s,
        "mean_ttft_ms": found.ttft_s.mean * 1e3,
        "mean_tpot_ms": found.tpot_s.mean * 1e3,
    }
    (tmp_path / "rate.json").write_text(json.dumps(data))
    fit = fit_server(read_loads([tmp_path / "rate.json"], base), "tests")
    fitted = {f.name: f for f in fit.fitted}
    low, high = fitted["front_end"].interval
    assert low <= 1.5 <= high and fitted["front_end"].value > 1.2


def test_a_scrape_is_of_the_load_that_the_scenario_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["# TYPE vllm:request_prompt_tokens histogram"]
    for name, total in (("request_prompt_tokens", 51200), ("request_generation_tokens", 6400)):
        lines += [f"vllm:{name}_sum {total}", f"vllm:{name}_count 100"]
    lines += ["vllm:time_to_first_token_seconds_sum 6.0", "vllm:time_to_first_token_seconds_count 100"]
    scrape = tmp_path / "metrics.txt"
    scrape.write_text("\n".join(lines) + "\n")
    base, _ = _server(tmp_path, {})
    load = read_loads([scrape], base)[0]
    assert load.deployment.concurrency == 8 and load.figures == {"ttft_mean_s": pytest.approx(0.06)}
    unsaid = {**SCENARIO["serving"], "traffic": {"trace": str(scrape)}}
    base.write_text(yaml.safe_dump({**SCENARIO, "serving": unsaid}))
    assert run(["calibrate", "--from", str(scrape), str(base), "--out", str(tmp_path / "out.yaml")]) == 2
    assert "does not say how requests were sent" in capsys.readouterr().err


def test_explain_says_which_coefficient_a_result_is_off_by(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, true = _server(tmp_path, {"host_s": 0.006})
    file = _result(tmp_path, true, LOADS[2])
    assert run(["explain", str(base), "--against", str(file), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["fitted"]["host_s"]["value"] > 1.5 * data["fitted"]["host_s"]["prior"]
    assert min(one["before_error"] for one in data["figures"] if one["name"] == "tpot_mean_s") < -0.1
    assert run(["explain", str(base), "--against", "12ms"]) == 2
    assert "must be a file of results" in capsys.readouterr().err
