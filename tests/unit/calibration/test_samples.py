"""`windtunnel calibrate --from samples`: attempts to a section, and the section back to the same figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from windtunnel.calibration.samples import fit_samples, write_population
from windtunnel.cli.main import app
from windtunnel.errors import BadInput
from windtunnel.population.pass_at_k import at_least_one
from windtunnel.population.resolve_population import populations
from windtunnel.scenarios.load import load_scenario


def attempts_file(
    folder: Path, samples: int = 120, problems: int = 60, temperatures: tuple[float, ...] = (0.7,)
) -> Path:
    rng = np.random.default_rng(1)
    lines = ["problem,correct,answer,tokens,temperature"]
    for problem, p in enumerate(rng.beta(0.4, 1.5, 60)):
        for at in range(samples):
            right = rng.random() < p
            answer = "right" if right else ("often" if rng.random() < 0.5 else f"{rng.integers(10**9)}")
            tokens = max(1, round(rng.lognormal(6 if right else 7, 0.4)))
            lines.append(f"{problem},{int(right)},{answer},{tokens},{temperatures[at % len(temperatures)]}")
    path = folder / "attempts.csv"
    path.write_text("\n".join(lines))
    return path


def test_the_section_gives_the_figures_of_the_fit(tmp_path):
    found = fit_samples(attempts_file(tmp_path))
    out = tmp_path / "population.yaml"
    write_population(found, out)
    (tmp_path / "s.yaml").write_text(
        "model: meta-llama/Llama-3.1-8B\n"
        "cluster: {device: h100-sxm-80gb, nodes: 1, devices_per_node: 8}\n"
        "population: population.yaml\n"
    )
    (again,) = populations(load_scenario(tmp_path / "s.yaml").population).values()
    for k in (1, 10, 1000):
        direct, read = found.figures[f"pass@{k}"], again.accuracy(lambda p, k=k: at_least_one(p, k))
        assert read.mean == pytest.approx(direct.mean, abs=1e-3)
        assert read.high - read.low == pytest.approx(direct.high - direct.low, rel=0.3)
        assert read.grade == "fitted" and read.low < read.mean < read.high
    assert again.temperature == 0.7 and again.lengths is not None
    assert len(again.wrong_answers) == 5 and again.wrong_answers[2][0] == pytest.approx(0.5, abs=0.1)
    assert found.figures["majority of 16"].mean > found.figures["pass@1"].mean
    assert "90 %" in out.read_text()


def test_the_verb_writes_and_tells(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = attempts_file(tmp_path, samples=20)
    result = CliRunner().invoke(app, ["calibrate", "--from", "samples", path.name, "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["attempts"] == 1200 and told["problems"] == 60
    assert "20 attempts at a problem: below 100" in told["notes"][0]
    assert 0 < told["figures"]["pass@10"]["interval"]["low"] < told["figures"]["pass@10"]["interval"]["high"] < 1
    assert (tmp_path / "population.yaml").exists()
    shown = CliRunner().invoke(app, ["calibrate", "--from", "samples", path.name, "--out", "other.yaml"])
    assert "pass@100" in shown.stdout and "! 20 attempts" in shown.stdout


def test_too_few_and_mixed_are_refused(tmp_path):
    with pytest.raises(BadInput, match="must have 16 attempts at a problem at least"):
        fit_samples(attempts_file(tmp_path, samples=10))
    mixed = attempts_file(tmp_path, samples=40, temperatures=(0.2, 1.0))
    with pytest.raises(BadInput) as error:
        fit_samples(mixed)
    assert [line.split(" (")[0] for line in str(error.value).splitlines()] == [
        f"temperature = {t}: 1,200 attempts; one population has one temperature: choose with --temperature"
        for t in (0.2, 1.0)
    ]
    assert fit_samples(mixed, temperature=1.0).read.attempts == 1200


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "samples"], "--from samples: needs one file of attempts"),
        (["--from", "samples", "nowhere.csv"], "--from samples = nowhere.csv: cannot be read"),
        (["--from", "incidents", "x.csv", "--task", "math"], "--task: goes with --from samples"),
        (["--from", "samples", "x.csv", "--nodes", "4"], "--nodes: goes with --from incidents"),
    ],
)
def test_wrong_options(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["calibrate", *options])
    assert isinstance(result.exception, BadInput) and said in str(result.exception)


def lines_file(folder: Path, header: str, lines: list[str], name: str = "attempts.csv") -> Path:
    path = folder / name
    path.write_text("\n".join([header, *lines]))
    return path


def test_histograms_never_add_up_to_more_than_all_wrong_answers(tmp_path):
    """Six wrong answers a sixth each: shares rounded up would add up to 1.0002, and no section has that."""
    lines = [f"{p},{int(k == 24)},{'uvwxyz'[k % 6]}" for p in range(12) for k in range(25)]
    found = fit_samples(lines_file(tmp_path, "problem,correct,answer", lines))
    assert found.section.wrong_answers and all(sum(kind) <= 1 for kind in found.section.wrong_answers)


@pytest.mark.parametrize(
    ("header", "lines", "said"),
    [
        ("problem,correct,attempt", ["1,0,0", "1,1,1", "1,1,1"], "attempt = 1: must be one row for each attempt"),
        ("problem,correct,correct", ["1,0,1"], "correct = 2 columns correct: must be one column"),
        ("problem,correct,trial", ["1,0,0", "2,1,0", "2,2,1"], "correct = 2: must be 0 or 1"),
    ],
)
def test_damaged_tables_are_told(tmp_path, header, lines, said):
    with pytest.raises(BadInput) as error:
        fit_samples(lines_file(tmp_path, header, lines))
    assert said in str(error.value)


def test_json_lines_tell_the_line_that_is_broken(tmp_path):
    good = '{"problem": 1, "correct": 1}'
    with pytest.raises(BadInput, match=r"is no JSON.*a\.jsonl:3\)"):
        fit_samples(lines_file(tmp_path, good, [good, '{"problem": 1, "cor'], "a.jsonl"))


def test_columns_in_any_order_answers_of_several_lines_and_missing_tokens(tmp_path):
    rng = np.random.default_rng(2)
    lines = []
    for problem, p in enumerate(rng.beta(0.5, 1.0, 20)):
        for at in range(40):
            right = bool(rng.random() < p)
            lines.append(f'{"" if at % 4 == 0 else 100 + at},"of two\nlines",{right},{at},p{problem}')
    found = fit_samples(lines_file(tmp_path, "Output Tokens,answer,Is Correct,attempt,Task ID", lines))
    assert found.read.attempts == 800 and len(found.read.samples) == 20 and found.read.lengths is not None
    assert "200 attempts do not state their tokens" in " ".join(found.notes)
    assert found.read.wrong_answers == ((1.0,),) * 5
