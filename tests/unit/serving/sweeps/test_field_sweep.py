"""`serve --sweep field=values`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windtunnel import api
from windtunnel.cli.main import run
from windtunnel.errors import BadInput
from windtunnel.serving.sweeps.field_sweep import is_field, read_field

FILE = Path(__file__).parents[4] / "examples" / "serving" / "llama3-70b-4xh100.yaml"
SMALL = ["serving.traffic.num_requests=300"]


def test_values_run_with_the_same_requests_and_are_those_of_single_runs() -> None:
    sweep = api.sweep_serving_field(FILE, "serving.precision.weights=bf16,fp8", overrides=SMALL)
    a, b = (p.result for p in sweep.points)
    assert a is not None and b is not None and a.requests == b.requests == 300
    assert b.tpot_s.p50 < a.tpot_s.p50, "half of the bytes are read faster"
    again = api.simulate_serving(FILE, overrides=[*SMALL, "serving.precision.weights=fp8"])
    assert again.tpot_s == b.tpot_s and again.ttft_s == b.ttft_s


def test_ranges_lists_and_brackets() -> None:
    assert read_field("a.b=16..256", 5).values == ("16", "32", "64", "128", "256")
    assert read_field("a.b=1..9", 5, linear=True).values == ("1", "3", "5", "7", "9")
    assert read_field("a.b=[1,2],[3],x").values == ("[1,2]", "[3]", "x")
    assert is_field("serving.traffic.seed=1,2") and not is_field("rate=1..2") and not is_field("rat=1..2")
    for wrong in ("a.b=", "a.b=1,,2"):
        with pytest.raises(BadInput):
            read_field(wrong)


def test_what_cannot_run_is_a_row_unless_nothing_can(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = ["serve", str(FILE), "--set", SMALL[0], "--sweep"]
    assert run([*told, "serving.pools.0.plan.tp=1,3,4"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("cannot run") == 2 and "must divide" in shown and "GiB more a device" in shown
    assert run([*told, "serving.pools.0.plan.tp=1,3,4", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["points"]
    assert [bool(r.get("reason")) for r in rows] == [True, True, False] and rows[2]["ttft_p50_s"] > 0
    assert run([*told, "serving.pools.0.plan.tpp=1,2"]) == 2
    assert "tpp" in capsys.readouterr().err
    assert run([*told, "serving.traffic.seed=1,2", "--report", str(tmp_path / "sweep.html")]) == 0
    assert "serving.traffic.seed" in (tmp_path / "sweep.html").read_text(encoding="utf-8")
    capsys.readouterr()
