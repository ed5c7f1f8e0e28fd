"""The section `population:`: what it accepts, what it refuses line by line, and files of samples."""

from __future__ import annotations

import json

import numpy as np
import pytest

from windtunnel.errors import BadInput
from windtunnel.population.pass_at_k import at_least_one
from windtunnel.population.resolve_population import populations
from windtunnel.population.samples_file import read_samples
from windtunnel.scenarios.load import load_scenario

BASE = {"model": "meta-llama/Llama-3.1-8B", "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8}}


def section(population):
    return load_scenario({**BASE, "population": population}).population


def told(population) -> list[str]:
    with pytest.raises(BadInput) as error:
        section(population)
    return str(error.value).splitlines()


@pytest.mark.parametrize(
    "given",
    [
        {"beta": {"a": 0.3, "b": 1.2}},
        {"beta": {"a": 0.3, "b": 1.2, "log_sd_a": 0.2, "log_sd_b": 0.3, "log_correlation": 0.8}},
        {"pass_at_k": {1: 0.2, 10: 0.5}, "temperature": 0.6},
        {"pass_at_k": {"1": 0.2, "10": 0.5}, "temperature": {1: 0.6, 10: 0.6}},
        {"all_of_k": {1: 0.6, 2: 0.49}, "problems": 115},
        {"pass_1": 0.4, "concentration": 0.8, "max_tokens": 16384},
        {"pass_1": 0.4},
    ],
)
def test_forms_of_the_section(given):
    (found,) = populations(section(given)).values()
    figure = found.accuracy(lambda p: at_least_one(p, 8))
    assert 0 < figure.low <= figure.mean <= figure.high < 1 and figure.grade in ("fitted", "assumed")
    assert found.accuracy(lambda p: p).mean == pytest.approx(found.law.mean, rel=1e-9)
    alone = set(given) == {"beta"} and "log_sd_a" not in given["beta"]
    assert (figure.high - figure.low == 0) == alone


def test_several_models():
    found = populations(section({"models": {"small": {"pass_1": 0.2}, "big": {"beta": {"a": 1, "b": 1}}}}))
    assert list(found) == ["small", "big"] and found["big"].law.mean == 0.5


def test_every_problem_has_a_line():
    lines = told(
        {
            "pass_at_k": {1: 0.2, 10: 0.1},
            "temperature": {1: 0.2, 10: 0.8, 100: 1.0},
            "wrong_answers": [0.2, 0.9],
            "concentration": 1,
            "pass_1": 0.3,
        }
    )
    assert lines == [
        "population.pass_at_k.10 = 0.1: must not be below 0.2, that of 1 attempts: more attempts are never worse",
        "population.temperature.10 = 0.8: differs from 0.2 at k = 1: one population has one temperature",
        "population.temperature.100 = 1.0: differs from 0.2 at k = 1: one population has one temperature",
        "population.wrong_answers: must not add up to more than 1 (they add up to 1.1)",
        "population.wrong_answers: must list shares from the largest to the smallest",
        "population.pass_1: needs one source, not pass_at_k and pass_1",
    ]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, "population: needs one of beta, samples, pass_at_k, all_of_k, pass_1 (or `models`)"),
        ({"pass_1": 1.2}, "population.pass_1 = 1.2: must be at most 1"),
        ({"pass_1": 1.0}, "population.pass_1 = 1.0: must be between 0 and 1: no law has all or none right"),
        ({"pass_at_k": {1: -0.1}}, "population.pass_at_k.1 = -0.1: must be at least 0"),
        ({"pass_at_k": {0: 0.1}}, "population.pass_at_k.0: must be of 1 to 1,000,000,000 attempts"),
        ({"pass_at_k": {1.5: 0.1}}, "population.pass_at_k.1.5 = 1.5: must be a whole number"),
        ({"beta": {"a": 0, "b": 1}}, "population.beta.a = 0: must be greater than 0"),
        ({"models": {"x": {}}}, "population.models.x: needs one of beta, samples, pass_at_k, all_of_k, pass_1"),
        ({"pass_1": 0.2, "task": "math"}, "population.task = math: goes with `samples`: it chooses their rows"),
    ],
)
def test_lines(given, line):
    assert told(given)[0] == line


# -- files of samples


def attempts_csv(tmp_path, lines, header="problem,correct,answer,tokens,temperature"):
    path = tmp_path / "mine.csv"
    path.write_text("\n".join([header, *lines]))
    return path


def test_attempts_are_counted_and_answers_and_lengths_read(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for problem in range(20):
        for _ in range(100):
            right = rng.random() < (problem + 0.5) / 20
            answer = "42" if right else ("7" if rng.random() < 0.6 else f"x{rng.integers(10**9)}")
            tokens = int(rng.lognormal(6 if right else 7, 0.3))
            lines.append(f"q{problem},{'true' if right else 'False'},{answer},{tokens},0.7")
    found = read_samples(attempts_csv(tmp_path, lines))
    assert found.attempts == 2000 and len(found.samples) == 20 and found.temperature == 0.7
    assert len(found.wrong_answers) == 5 and found.wrong_answers[2][0] == pytest.approx(0.6, abs=0.06)
    assert found.lengths.correct.mean < found.lengths.wrong.mean
    assert found.lengths.wrong.sigma == pytest.approx(0.3, abs=0.02)
    (tmp_path / "s.yaml").write_text(json.dumps({**BASE, "population": {"samples": "mine.csv"}}))
    (population,) = populations(load_scenario(tmp_path / "s.yaml").population).values()
    assert population.law.mean == pytest.approx(0.5, abs=0.03) and population.lengths is not None
    assert population.temperature == 0.7


def test_counts_of_several_models_are_chosen_by_name(tmp_path):
    path = tmp_path / "rows.json"
    lists = [
        {"model": m, "task": "math", "correct": [c] * 20, "samples_per_problem": 50} for m, c in (("a", 5), ("b", 20))
    ]
    path.write_text(json.dumps(lists))
    assert read_samples(path, model="b").correct.tolist() == [20.0] * 20
    with pytest.raises(BadInput) as error:
        read_samples(path)
    assert [line.split(" (")[0] for line in str(error.value).splitlines()] == [
        "model = a: 1,000 attempts; one population has one model: choose with --model",
        "model = b: 1,000 attempts; one population has one model: choose with --model",
    ]


def test_mixed_temperatures_have_a_line_each(tmp_path):
    path = attempts_csv(tmp_path, [f"q{i % 9},1,a,9,{t}" for i in range(99) for t in (0.2, 0.8)])
    with pytest.raises(BadInput) as error:
        populations(section({"samples": str(path)}))
    assert [line.split(" (")[0] for line in str(error.value).splitlines()] == [
        f"temperature = {t}: 99 attempts; one population has one temperature: choose with population.temperature"
        for t in (0.2, 0.8)
    ]
    assert read_samples(path, temperature=0.2).attempts == 99


def test_damaged_rows_have_a_line_each(tmp_path):
    path = attempts_csv(tmp_path, ["q1,maybe,a,9,0.2", ",1,a,9,0.2", "q1,1,a,-3,0.2", "q1,1,a", "q1,1,a,9,hot"])
    with pytest.raises(BadInput) as error:
        read_samples(path)
    assert [line.rpartition(" (")[0] for line in str(error.value).splitlines()] == [
        "correct = maybe: must be 0 or 1 (or true, false)",
        "problem: must not be empty",
        "tokens = -3: must be a number of at least 1",
        "3 cells: must have 5 cells as the header has",
        "temperature = hot: must be a number of at least 0",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("problem,answer\nq,1", "correct: is required as a column"),
        ("", "problem: is required as a column"),
        ("problem,correct", "must hold one attempt at least"),
        ("[1, 2]", "1: must be a mapping"),
        ("[{", "is no JSON"),
        ('[{"correct": [1, 2]}]', "samples: is required with a list of counts"),
        ('[{"problem": 1, "correct": 5, "samples": 4}]', "correct = 5: must be a whole number from 0 to 4"),
    ],
)
def test_files_that_are_none(tmp_path, text, said):
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(BadInput) as error:
        read_samples(path)
    assert said in str(error.value)
