"""`learn`: what a result says, what is kept, what is refused, and what other verbs say of a learning section."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import windtunnel as wt
from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.learning import curves
from windtunnel.learning import simulate as simulation
from windtunnel.learning.prepare_learning import prepare_learning
from windtunnel.scenarios.load import load_scenario
from windtunnel.views.learn import drawn
from windtunnel.views.learn import view as view_of
from windtunnel.writers import html
from windtunnel.writers.terminal import render

ROOT = Path(__file__).parents[3]
SMALL: dict[str, Any] = {
    "task": "quadratic",
    "workers": 4,
    "steps": 120,
    "algorithms": ["data_parallel", {"diloco": {"period": 10}}],
    "seeds": 2,
    "step_s": "500 ms",
    "parameters": "1B",
    "layers": 8,
    "step_watts": 100,
    "idle_watts": 10,
    "link": {"bandwidth": "1 Gb/s", "latency": "10 ms"},
    "target": {"loss": 5.0},
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDTUNNEL_CACHE", str(tmp_path / "cache"))


def learned(**changes: Any) -> Any:
    return api.simulate_learning({"learning": {**SMALL, **changes}})


def problems(section: dict[str, Any]) -> str:
    with pytest.raises(BadInput) as caught:
        prepare_learning({"learning": section})
    return str(caught.value)


def test_the_contract_of_the_json() -> None:
    found = json.loads(json.dumps(learned().to_dict(), default=list))
    assert [(c["algorithm"], c["seed"]) for c in found["curves"]] == [
        ("data_parallel", 1),
        ("data_parallel", 2),
        ("diloco", 1),
        ("diloco", 2),
    ]
    points = found["curves"][0]["points"]
    assert list(points[0]) == ["step", "time_s", "bytes", "joules", "loss", "metric"] and points[-1]["step"] == 120
    for name in ("time_to_target_s", "bytes_per_worker_step", "utilisation", "staleness", "verdicts"):
        assert list(found[name]) == ["data_parallel", "diloco"]
    assert found["resolved"] is False and found["worker_steps_per_s"] > 0


def test_bytes_are_the_targets_and_fall_by_the_period() -> None:
    dense, rare = learned().algorithms
    assert dense.bytes_per_worker_step == pytest.approx(2 * 3 / 4 * 4e9, rel=1e-6)
    assert dense.bytes_per_worker / rare.bytes_per_worker == pytest.approx(10)
    assert dense.hours > rare.hours and rare.utilisation > dense.utilisation
    assert dense.time_to_target_s is not None and rare.time_to_target_s is not None


def test_joules_are_watts_times_seconds() -> None:
    (a, _) = learned().algorithms
    seconds, computing = 3600 * a.hours, 4 * 120 * 0.5
    assert 3.6e6 * a.kwh == pytest.approx(100 * computing + 10 * (4 * seconds - computing), rel=1e-6)


def test_what_was_learned_is_kept_and_timed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    before = learned()

    def never(key: object) -> None:
        raise AssertionError("learned twice")

    monkeypatch.setattr(curves, "learn_curve", never)
    after = learned(link={"bandwidth": "10 Gb/s"})
    assert after.worker_steps_per_s is None
    for a, b in zip(before.curves, after.curves, strict=True):
        assert np.array_equal(a.loss, b.loss) and a.time_s[-1] > b.time_s[-1]
    with pytest.raises(AssertionError, match="learned twice"):
        learned(steps=121)


def test_processes_give_the_same_bits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    alone = learned(gate=False)
    monkeypatch.setattr(simulation, "POOL_PAYS_S", 0.0)
    monkeypatch.setattr(simulation, "_cores", lambda: 2)
    monkeypatch.setenv("WINDTUNNEL_CACHE", str(tmp_path / "empty"))
    apart = learned(gate=False)
    for a, b in zip(alone.curves, apart.curves, strict=True):
        assert np.array_equal(a.loss, b.loss)


def test_a_stop_keeps_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    real, made = curves.learn_curve, []

    def stopped(key: Any) -> Any:
        made.append(key)
        if len(made) == 3:
            raise KeyboardInterrupt
        return real(key)

    monkeypatch.setattr(curves, "learn_curve", stopped)
    found = learned(gate=False)
    assert found.interrupted and len(found.curves) == 2
    assert any("stopped" in line for line in found.warnings)


def test_a_diverging_rate_is_told_with_its_step_and_results_up_to_there() -> None:
    found = learned(inner="sgd", lr=50.0, gate=False)
    for figures in found.algorithms:
        assert figures.loss is None and figures.diverged and figures.resolved is None
    assert all(np.isfinite(c.loss).all() and len(c.loss) for c in found.curves)
    assert any("was not finite at step" in line for line in found.warnings)


def test_the_gate_says_why() -> None:
    one_seed = learned(seeds=1)
    assert "one seed" in one_seed.of("diloco").reasons[0]
    few = learned()
    assert any("12 outer rounds ran" in reason for reason in few.of("diloco").reasons)
    assert learned(gate=False).of("diloco").resolved is None


def test_a_law_speaks_inside_its_range_alone() -> None:
    found = learned(law="diloco-scaling", algorithms=["data_parallel", {"diloco": {"period": 30}}, "local_sgd"]).law
    assert found["loss"]["data_parallel"] == pytest.approx(18.129 * 1e9**-0.0953)
    assert found["loss"]["diloco"] == pytest.approx(19.226 * 1e9**-0.0985 * 4**0.0116)
    assert "not of local_sgd" in found["outside"]["local_sgd"]
    huge = learned(law="diloco-scaling", parameters="405B").law
    assert not huge["loss"] and "35M to 10B" in huge["outside"]["data_parallel"]


def test_without_a_clock_there_are_steps_and_bytes_of_the_task() -> None:
    bare = {k: v for k, v in SMALL.items() if k not in ("step_s", "parameters", "layers", "link", "step_watts")}
    found = api.simulate_learning({"learning": bare})
    assert found.algorithms[0].hours is None and found.algorithms[0].bytes_per_worker_step > 0
    assert found.target["step_s"] is None and np.isnan(found.curves[0].time_s).all()


def test_the_step_is_that_of_train() -> None:
    scenario = {
        "model": "meta-llama/Llama-3.2-1B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 2048, "global_batch": 64},
        "plan": {"mbs": 4},
    }
    step = api.simulate_training(scenario, sensitivities=False)
    section = {k: v for k, v in SMALL.items() if k not in ("step_s", "parameters", "layers", "step_watts")}
    found = api.simulate_learning({**scenario, "learning": {**section, "gate": False}})
    assert found.target["step_s"] == step.step_time_s
    assert found.target["parameters"] == pytest.approx(1.236e9, rel=0.01)
    assert found.algorithms[0].cost is not None and found.algorithms[0].kwh is not None


def test_every_problem_is_told_at_once() -> None:
    said = problems(
        {
            **SMALL,
            "task": "quadratc",
            "inner": "adamm",
            "law": "diloco",
            "failures": "rsc",
            "algorithms": ["data_paralel", {"diloco": {"perod": 3}}, {"diloco": {"buffer": 4}}],
        }
    )
    for words in (
        "did you mean 'quadratic'",
        "did you mean 'adamw'",
        "did you mean 'data_parallel'",
        "did you mean 'period'",
        "workers of diloco wait for each other",
        "no such law",
        "learning.failures",
    ):
        assert words in said, words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target": {"metric": 0.9}}, "has no metric"),
        ({"target": {"loss": 0.0}, "task": {"quadratic": {"shift": 1.0}}}, "no parameters reach less"),
        ({"algorithms": [{"diloco": {"compressor": "topk"}}]}, "never sends what it leaves out"),
        ({"algorithms": [{"gradient-coding": {"late": 4}}]}, "has to leave a worker"),
        ({"algorithms": [{"fedbuff": {"concurrency": 9}}]}, "there are 4 workers"),
        ({"algorithms": ["diloco", "diloco"]}, "given twice"),
        ({"split": {"dirichlet": 0.5}}, "has iid only"),
        ({"algorithms": []}, "must name one algorithm"),
    ],
)
def test_what_does_not_go_together_is_one_line(changes: dict[str, Any], words: str) -> None:
    said = problems({**SMALL, **changes})
    assert words in said and "Traceback" not in said and len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("lr", "rule"),
    [(-1, "must be greater than 0"), (0.0, "must be greater than 0"), ("fast", "must be a number or a mapping")],
)
def test_learning_rates_are_numbers_above_zero(lr: object, rule: str) -> None:
    with pytest.raises(BadInput, match=f"learning.lr = {lr}: {rule}"):
        prepare_learning({"learning": {**SMALL, "lr": lr}})


def test_a_run_shorter_than_a_round_is_told() -> None:
    found = learned(steps=20, algorithms=["data_parallel", "diloco"], seeds=1)
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith("diloco: workers exchanged nothing in 20 steps; a round is 100 steps")
    assert not learned(steps=20, seeds=1).warnings


def test_hours_without_a_link_say_that_messages_take_no_time() -> None:
    without = learned(steps=20, seeds=1, link=None)
    assert any("no learning.link" in note for note in without.notes)
    assert not any("no learning.link" in note for note in learned(steps=20, seeds=1).notes)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_title_or_label_is_cut_short(width: int) -> None:
    from rich.console import Console

    topk = {"data_parallel": {"compressor": {"topk": {"fraction": 0.01}}, "feedback": 1.0}}
    found = learned(steps=20, seeds=1, algorithms=["data_parallel", topk])
    out = StringIO()
    Console(file=out, width=width).print(render(view_of(found)))
    said = out.getvalue()
    assert "…" not in said and all(len(line) <= width for line in said.splitlines())
    assert all(word in said.split() for word in ("computing", "target", "energy", "data_parallel", "kWh"))
    for algorithm in found.algorithms:
        assert f"{algorithm.loss:.4g}" in said.split()


@pytest.mark.parametrize("target", [{"loss": 7.0}, None])
def test_a_sweep_names_a_query_with_rows(target: object, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from windtunnel.cli.main import app

    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump({"learning": {**SMALL, "steps": 20, "seeds": 1, "target": target}}))
    asked = ["sweep", "start", str(file), "--vary", "learning.workers=2,3", "--out", str(tmp_path / "rows"), "-j", "1"]
    said = CliRunner().invoke(app, asked).output
    query = said.partition("see them: windtunnel ")[2].split()
    shown = CliRunner().invoke(app, query).output
    assert shown.startswith("2 rows") and "learning.workers" in shown, shown


def test_other_verbs_name_learn() -> None:
    scenario = {"learning": SMALL}
    for simulate in (api.simulate_training, api.simulate_serving, api.simulate_cluster):
        with pytest.raises(BadInput, match="of learning, `learn` is the command"):
            simulate(scenario)
    with pytest.raises(BadInput, match="learning: is required for `learn`"):
        api.simulate_learning({"model": "meta-llama/Llama-3.1-8B", "cluster": "selene"})


def test_reports_say_what_the_result_says(tmp_path: Path) -> None:
    found = wt.scenario({"learning": SMALL}).learn()
    page = html.write(view_of(found), tmp_path / "r.html").read_text("utf-8")
    for words in ("Loss against hours", "Loss against joules", "not resolved", "Algorithms side by side"):
        assert words in page
    assert '<td class="n"' in page.split("Loss against")[0]  # a number and its unit stay on one line
    from rich.console import Console

    console = Console(width=120, record=True, file=StringIO())
    console.print(render(view_of(found, plot=True)))
    told = console.export_text()
    assert "data_parallel" in told and "not resolved" in told and "simulated hours" in told
    from windtunnel.learning.charts import ACROSS

    assert drawn(found, ACROSS[0]).count("\n") > 10
    assert len(found.figure().charts) == 4


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "learning").glob("*.yaml")), ids=lambda p: p.stem)
def test_examples_run_in_small(path: Path) -> None:
    data = yaml.safe_load(path.read_text("utf-8"))
    section = data["learning"] | {"steps": 20, "gate": False, "seeds": 1}
    section["workers"] = min(section["workers"], 40)
    section["algorithms"] = [
        {id: {k: min(v, 20) if k in ("active", "concurrency") else v for k, v in knobs.items()}}
        for entry in section["algorithms"]
        for id, knobs in ({entry: {}} if isinstance(entry, str) else entry).items()
    ]
    section.pop("target", None)
    found = api.simulate_learning({**data, "learning": section})
    assert all(a.loss is not None and a.hours is not None for a in found.algorithms)
    assert load_scenario(path).learning is not None
