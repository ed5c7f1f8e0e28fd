"""A failure profile fitted to incidents says what they were drawn from, and damaged lines are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from windtunnel.calibration.incident_causes import takes
from windtunnel.calibration.incidents import read_incidents
from windtunnel.calibration.incidents_fit import fit_incidents, gaps_of, log_likelihood, rate_of
from windtunnel.calibration.incidents_text import write_profile
from windtunnel.errors import BadInput
from windtunnel.scenarios.load import load_scenario

NODES, DAYS = 300, 200
OPEN = Path(__file__).parents[3].parent / "shared" / "data" / "runs" / "failures"


def drawn(seed: int, *, shape: float = 1.0, variation: float = 0.0, per_1000: float = 12.0) -> str:
    """A log of nodes that fail at a rate of their own with Weibull gaps; hazards are gamma where the shape is 1."""
    from math import gamma

    random = np.random.default_rng(seed)
    rates = np.full(NODES, per_1000 / 1000.0)
    if variation:
        rates = rates * random.gamma(variation**-2, variation**2, NODES)
    lines = ["Timestamp_days,Root Cause,Host,detect_min,repair_h"]
    for node, rate in enumerate(rates):
        at = 0.0
        while True:
            at += random.weibull(shape) / (rate * gamma(1.0 + 1.0 / shape))
            if at > DAYS:
                break
            cause = "GPU ECC" if random.random() < 0.75 else "NIC"
            lines.append(f"{at:.5f},{cause},node{node},{random.exponential(3.0):.4f},0")
    return "\n".join(lines) + "\n"


def fitted(tmp_path: Path, text: str, **kwargs: float) -> object:
    file = tmp_path / "log.csv"
    file.write_text(text, "utf-8")
    return fit_incidents(read_incidents(file), **kwargs)  # type: ignore[arg-type]


@pytest.mark.slow
def test_intervals_hold_what_incidents_were_drawn_from(tmp_path: Path) -> None:
    inside = {"gpu": 0, "nic": 0, "detect": 0, "shape": 0, "variation": 0}
    runs = 30
    for seed in range(runs):
        plain = fitted(tmp_path, drawn(seed), nodes=NODES, days=DAYS)
        by = {c.name: c for c in plain.causes}
        inside["gpu"] += by["GPU ECC"].rate.low <= 9.0 <= by["GPU ECC"].rate.high
        inside["nic"] += by["NIC"].rate.low <= 3.0 <= by["NIC"].rate.high
        detect = by["GPU ECC"].detect_s
        inside["detect"] += detect.low <= 180.0 <= detect.high
        worn = fitted(tmp_path, drawn(seed, shape=1.6), nodes=NODES, days=DAYS)
        inside["shape"] += worn.shape.low <= 1.6 <= worn.shape.high
        uneven = fitted(tmp_path, drawn(seed, variation=0.9), nodes=NODES, days=DAYS)
        inside["variation"] += uneven.variation.low <= 0.9 <= uneven.variation.high
        assert worn.kept_shape and uneven.kept_variation
    # 80 % intervals: of 30, between 18 and 29 hold the truth but for one case in a hundred
    assert all(18 <= count <= 29 for count in inside.values()), inside


@pytest.mark.slow
def test_what_is_not_there_is_seldom_found(tmp_path: Path) -> None:
    found = [fitted(tmp_path, drawn(100 + seed), nodes=NODES, days=DAYS) for seed in range(20)]
    assert sum(x.kept_shape or x.kept_variation for x in found) <= 5
    assert all(x.profile.weibull_shape == 1.0 for x in found if not x.kept_shape)


def test_the_likelihood_without_differences_is_that_of_exponential_gaps(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(drawn(3), "utf-8")
    log = read_incidents(file)
    gaps = gaps_of(log.incidents, NODES, 0.0, DAYS * 86400.0)
    rate = 12e-3 / 86400.0
    exact = gaps.count * np.log(rate) - rate * NODES * DAYS * 86400.0
    assert log_likelihood(gaps, rate, 1.0, 0.0) == pytest.approx(exact, rel=1e-5)
    assert log_likelihood(gaps, rate, 1.0, 1e-7) == pytest.approx(exact, rel=1e-5)


def test_a_rate_has_the_interval_of_its_gamma_posterior() -> None:
    none, many = rate_of(0, 100.0), rate_of(1000, 100.0)
    assert none.value == none.low == 0.0 < none.high < 0.03
    assert many.low < 10.0 < many.high
    assert (many.high - many.low) / 2 == pytest.approx(1.2816 * np.sqrt(1000) / 100, rel=0.02)


def test_the_profile_is_what_a_run_reads(tmp_path: Path) -> None:
    found = fitted(tmp_path, drawn(1, variation=0.9), nodes=NODES, days=DAYS)
    write_profile(found, tmp_path / "mine.yaml")
    scenario = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "run": {"steps": 10, "failures": str(tmp_path / "mine.yaml")},
    }
    assert load_scenario(scenario).run.failures == found.profile
    scenario["run"]["failures"] = str(tmp_path / "none.yaml")
    with pytest.raises(BadInput, match=r"run.failures.*cannot be read"):
        load_scenario(scenario)


def test_columns_by_other_names_and_dates(tmp_path: Path) -> None:
    text = (
        "Incident ID;Start Time;Symptom;Server;Detected At;Resolved At\n"
        "7;2026-03-02T07:00:00Z;NCCL timeout;n2;2026-03-02 07:10;2026-03-02 08:10\n"
        "1;2026-03-01T07:00:00Z;XID 79;n1;2026-03-01 07:01;2026-03-01 09:01\n"
    )
    file = tmp_path / "log.csv"
    file.write_text(text, "utf-8")
    log = read_incidents(file)
    assert [x.cause for x in log.incidents] == ["XID 79", "NCCL timeout"]
    assert (log.incidents[0].detect_s, log.incidents[0].repair_s) == (60.0, 7200.0)
    found = fit_incidents(log, nodes=4, days=10)
    assert found.repair_s.value == 7200.0  # of the node alone: the time-out takes none down
    assert found.profile.repair_s == 7200.0


def test_damaged_lines_are_named_each_in_a_line(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("time,cause,detected\n1,gpu,2\nsoon,gpu,\n3,,\n4,gpu\n5,gpu,4\n,gpu,\n", "utf-8")
    with pytest.raises(BadInput) as caught:
        read_incidents(file)
    assert [p.line for p in caught.value.problems] == [3, 4, 5, 6, 7]
    assert all("\n" not in str(p) for p in caught.value.problems)
    for text, rule in (("time,node\n1,a\n", "cause"), ("cause\ngpu\n", "time"), ("cause,count\n", "1 to")):
        file.write_text(text, "utf-8")
        with pytest.raises(BadInput, match=rule):
            read_incidents(file)
    file.write_text("cause,count\ngpu,3\n", "utf-8")
    with pytest.raises(BadInput, match="--days"):
        fit_incidents(read_incidents(file), nodes=3)
    file.write_text("time_d,cause,node\n1,gpu,a\n9,gpu,b\n", "utf-8")
    with pytest.raises(BadInput, match="--nodes"):
        fit_incidents(read_incidents(file), nodes=1, days=10)
    with pytest.raises(BadInput, match="--days"):
        fit_incidents(read_incidents(file), nodes=2, days=5)


def test_words_of_a_cause() -> None:
    said = {name: takes(name).radius for name in ("GPU HBM3 memory", "software bug", "NCCL watchdog timeout", "NIC")}
    assert said == {
        "GPU HBM3 memory": "node",
        "software bug": "process",
        "NCCL watchdog timeout": "process",
        "NIC": "node",
    }
    assert takes("silent data corruption").silent and takes("planned maintenance").drains


@pytest.mark.skipif(not OPEN.is_dir(), reason="open tables are not here")
def test_published_tables_are_read() -> None:
    found = fit_incidents(read_incidents(OPEN / "llama3_interruptions.csv"), nodes=2048, days=54)
    assert found.log.total == 419
    assert found.causes[0].rate.value == pytest.approx(1.3383, abs=1e-4)  # faulty GPU, as the catalogue's profile
    assert read_incidents(OPEN / "byterobust_incidents.csv").total == 55365
