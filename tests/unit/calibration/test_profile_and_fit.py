"""Profiles, fits and rows without PyTorch: measurements made up from known coefficients come back out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import windtunnel as wt
from windtunnel.calibration.cases import Case, Machine, cases
from windtunnel.calibration.measure import append
from windtunnel.calibration.profile import calibrated, write
from windtunnel.calibration.store import Measurement, Store
from windtunnel.cli.main import run
from windtunnel.cost.attention import AttentionWork, attention_time_s
from windtunnel.cost.coefficients import Coefficients, coefficients
from windtunnel.cost.gemm import Products, gemm_time_s
from windtunnel.cost.memory_bound import pointwise_time_s
from windtunnel.errors import BadInput
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.specs.device import DeviceSpec
from windtunnel.validation.rows.read_row import read

FACTS = {"id": "made-up", "name": "made up", "memory_bytes": 16e9, "cache_bytes": 16e6, "units": 2}
TRUTH = Coefficients(
    gemm_fraction={"fp32": 0.9, "bf16": 0.9},
    gemm_k0=40.0,
    gemm_floor_s=1e-5,
    memory_fraction=0.8,
    attention_fraction={"sdpa": 0.5, "flash2": 0.4},
    attention_ramp=100.0,
    attention_backward=0.8,
    attention_floor_s=1e-6,
)


def _device() -> DeviceSpec:
    return DeviceSpec.model_validate(
        {
            "id": "made-up",
            "name": "made up",
            "vendor": "generic",
            "kind": "cpu",
            "generation": "cpu",
            "peak_flop_per_s": {"fp32": 2e11},
            "memory_bytes": 16e9,
            "memory_bytes_per_s": 4e10,
            "l2_bytes": 16e6,
            "num_sms": 2,
            "gemm_tiles": [[32, 32]],
        }
    )


def _seconds(case: Case, device: DeviceSpec) -> float | None:
    s: dict[str, Any] = case.shape
    if case.kind == "gemm" and s["format"] == "fp32":
        one = np.ones(1)
        return float(
            gemm_time_s(
                device,
                TRUTH,
                Products(
                    m=one * s["m"],
                    n=one * s["n"],
                    k=one * s["k"],
                    peak_flop_per_s=one * 2e11,
                    fraction=one * 0.9,
                    operand_bytes=one * 4,
                    output_bytes=one * 4,
                    extra_bytes=one * 0,
                    groups=one,
                ),
            )[0]
        )
    if case.kind == "pointwise":
        return float(pointwise_time_s(device, TRUTH, np.array([float(s["bytes"])]))[0]) + 2e-6
    if case.kind == "attention" and s["direction"] != "decode":
        one = np.ones(1)
        return float(
            attention_time_s(
                device,
                TRUTH,
                AttentionWork(
                    pairs=one * s["batch"] * s["seq_len"] ** 2 / 2,
                    heads=one * s["heads"],
                    d_qk=one * s["head_dim"],
                    d_v=one * s["head_dim"],
                    seq_len=one * s["seq_len"],
                    kernel="sdpa",
                    backward=s["direction"] == "backward",
                    number_format="fp32",
                ),
            )[0]
        )
    return None


def _store(path: Path | None = None) -> Store:
    store = Store.open(path, {"machine": "made up"})
    device = _device()
    for case in cases(Machine("cpu", ("fp32",), 16e9, 16e6, 1)):
        seconds = _seconds(case, device)
        if seconds is not None:
            store.add(Measurement(case, seconds, seconds * 0.99, seconds * 1.01, 9))
    return store


def test_known_coefficients_come_back() -> None:
    found = calibrated(_store(), _device(), FACTS, 1)
    assert found.device.profile is not None
    own = {k: v.value for k, v in found.device.profile.coefficients.items()}
    assert own["gemm_fraction.fp32"] == pytest.approx(0.9, rel=0.02)
    assert own["gemm_k0"] == pytest.approx(40, rel=0.1)
    assert own["memory_fraction"] == pytest.approx(0.8, rel=0.02)
    assert own["attention_fraction.sdpa"] == pytest.approx(0.5, rel=0.05)
    assert own["attention_backward"] == pytest.approx(0.8, rel=0.02)
    assert max(found.errors().values()) < 0.02 and found.noise == pytest.approx(0.02) and not found.warnings


def test_a_noisy_machine_is_warned_of() -> None:
    store = _store()
    store.found = {k: replace(m, high_s=1.5 * m.median_s) for k, m in store.found.items()}
    assert any("noisy" in line for line in calibrated(store, _device(), FACTS, 1).warnings)


def test_an_interrupted_run_goes_on_under_the_same_conditions_alone(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    first = _store(kept)
    again = Store.open(kept, {"machine": "made up"})
    assert again.found.keys() == first.found.keys()
    assert next(iter(again.found.values())) == next(iter(first.found.values()))
    assert not Store.open(kept, {"machine": "another"}).found
    kept.write_text("no store\n")
    with pytest.raises(BadInput, match="no file of measurements"):
        Store.open(kept, {})


TINY = {
    "name": "tiny",
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "vocab_size": 1024,
}


def _scenario(device: str) -> dict[str, Any]:
    return {
        "model": TINY,
        "cluster": {"device": device, "nodes": 1, "devices_per_node": 1},
        "training": {"seq_len": 128, "global_batch": 2, "precision": "fp32", "framework": "ddp"},
        "plan": {"zero": 0},
    }


def test_a_profile_is_a_device_of_a_scenario(tmp_path: Path) -> None:
    write(calibrated(_store(), _device(), FACTS, 1), tmp_path / "mine.yaml")
    (tmp_path / "s.json").write_text(json.dumps(_scenario("mine.yaml")))
    result = wt.simulate_training(tmp_path / "s.json")
    assert result.step_time_s > 0
    again = wt.simulate_training(result.scenario)  # stands without the file
    assert again.step_time_s == result.step_time_s
    device = DeviceSpec.model_validate(result.scenario["cluster"]["device"])
    assert coefficients("ddp", device).gemm_k0 == pytest.approx(40, rel=0.1)
    assert coefficients("megatron_core", device).memory_fraction == coefficients("ddp", device).memory_fraction


def test_slower_measurements_make_slower_predictions(tmp_path: Path) -> None:
    store = _store()
    times = []
    for factor in (1.0, 2.0):
        slower = Store(None, {}, {k: replace(m, median_s=factor * m.median_s) for k, m in store.found.items()})
        write(calibrated(slower, _device(), FACTS, 1), tmp_path / "mine.yaml")
        times.append(wt.simulate_training(_scenario(str(tmp_path / "mine.yaml"))).step_time_s)
    assert 1.1 * times[0] < times[1] < 2.0 * times[0]  # nobody measured the optimizer


def test_the_fraction_of_the_format_itself_is_read() -> None:
    device = _device().model_dump(mode="json", exclude_defaults=True) | {"id": "made-up"}
    products = []
    for fraction in (0.8, 0.4):
        device["profile"] = {"coefficients": {"gemm_fraction.fp32": fraction, "gemm_fraction.bf16": 0.6}}
        result = wt.simulate_training(
            {**_scenario("x"), "cluster": {"device": device, "nodes": 1, "devices_per_node": 1}}
        )
        products.append(result.breakdown["gemm"])
    assert 1.7 * products[0] < products[1] <= 2.0 * products[0] * (1 + 1e-9)


def test_mistakes_in_a_profile_are_named_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(calibrated(_store(), _device(), FACTS, 1), tmp_path / "mine.yaml")
    data = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    data["profile"]["coefficients"]["gemm_fractoin.fp32"] = 0.5
    data["profile"]["coefficients"]["nonsense"] = 1.0
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(data))
    (tmp_path / "s.json").write_text(json.dumps(_scenario("mine.yaml")))
    assert run(["train", str(tmp_path / "s.json")]) == 2
    told = capsys.readouterr().err
    assert "gemm_fractoin.fp32" in told and "did you mean 'gemm_fraction'" in told and "nonsense" in told
    (tmp_path / "s.json").write_text(json.dumps(_scenario("absent.yaml")))
    assert run(["train", str(tmp_path / "s.json")]) == 2
    assert "absent.yaml" in capsys.readouterr().err


def test_own_rows_are_validated(tmp_path: Path) -> None:
    write(calibrated(_store(), _device(), FACTS, 1), tmp_path / "mine.yaml")
    result = wt.simulate_training(_scenario(str(tmp_path / "mine.yaml")))
    row = {
        "id": "own-1",
        "family": "own",
        "scenario": result.scenario,
        "metric": "step_time",
        "unit": "s",
        "value": result.step_time_s,
    }
    case = read(row)
    assert case.scenario is not None and case.metrics[0].measured == result.step_time_s
    file = tmp_path / "rows.json"
    assert append([row], file) == 1 and append([row], file) == 2
    rows = wt.validate(file)["rows"]
    assert [(row["id"], row["error"], row["family"]) for row in rows] == [("own-1", 0.0, "own")] * 2
    file.write_text("{}")
    with pytest.raises(BadInput, match="list of rows"):
        append([row], file)


def test_gloo_and_what_is_measured_of_it() -> None:
    device = _device().model_copy(update={"profile": None})
    from windtunnel.network.groups import placement
    from windtunnel.network.model import NetworkModel
    from windtunnel.specs.cluster import ClusterSpec, ScaleOut
    from windtunnel.specs.device import LinkSpec, MeasuredValue, Profile

    link = LinkSpec(id="gloo", bytes_per_s=5e9, family="gloo", topology="host")
    out = ScaleOut(nics_per_node=1, nic_bytes_per_s=1e9)
    plain = ClusterSpec(
        name="two", device=device, nodes=1, devices_per_node=2, scale_up=link, scale_out=out, scale_up_domain=2
    )
    profile = Profile(network={"efficiency": MeasuredValue(value=0.8), "hop_s": MeasuredValue(value=2e-5)})
    own = plain.model_copy(update={"device": device.model_copy(update={"profile": profile})})
    assert NetworkCoefficients.for_cluster(own).up.efficiency == 0.8
    place = placement(2, domain=2)
    times = {op: float(NetworkModel(own).collective(op, 16e6, place).alone_s) for op in ("all_reduce", "all_gather")}
    assert times["all_reduce"] > times["all_gather"] > 16e6 / 5e9
    assert times["all_reduce"] < float(NetworkModel(plain).collective("all_reduce", 16e6, place).alone_s)


def test_a_cpus_collectives_take_the_cores_that_compute() -> None:
    """Gathers beside products hide behind them on an accelerator; on a CPU the step grows by all of their time."""
    from windtunnel.training.explain.build_chain import build_chain
    from windtunnel.training.predict import prepare

    def sharded(kind: str) -> tuple[float, float]:
        device = _device().model_dump(mode="json", exclude_defaults=True)
        device |= {"id": "made-up", "kind": kind, "num_sms": 1}
        link = {"id": "gloo", "bytes_per_s": 2e9, "family": "gloo", "topology": "host"}
        scenario = {
            **_scenario("x"),
            "plan": {"zero": 3},
            "cluster": {"device": device, "nodes": 1, "devices_per_node": 2, "scale_up": link},
        }
        scenario["training"] = {**scenario["training"], "framework": "torchtitan", "compile": False}
        prepared, loaded = prepare(scenario)
        chain = build_chain(prepared, loaded)
        busy = sum(t.busy_s for t in chain.terms if t.time_class == "exposed dp")
        return busy, chain.exposed["exposed dp"] + chain.exposed.get("slowed by overlap", 0.0)

    busy, paid = sharded("cpu")
    assert paid == pytest.approx(busy, rel=0.02)
    busy, paid = sharded("gpu")
    assert paid < 0.9 * busy
