"""Sweeps of small scenarios: the same rows wherever they are computed, and all of them once."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from windtunnel import api
from windtunnel.commands import COMMANDS
from windtunnel.commands.base import Command, InSweeps
from windtunnel.errors import BadInput
from windtunnel.specs.settings import with_settings
from windtunnel.sweeps.compute import Computer
from windtunnel.sweeps.define import Asked, define
from windtunnel.sweeps.execute import Wishes, execute
from windtunnel.sweeps.executors import Executor, Task
from windtunnel.sweeps.executors.inline import Inline
from windtunnel.sweeps.executors.processes import Processes
from windtunnel.sweeps.start import Where, forecast, resume, start, summary

SMALL: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 32},
    "plan": {"tp": 2, "mbs": 1},
}
ASKED = Asked(source=SMALL, vary=("plan.tp=1,2,3,4", "training.global_batch=32,64"))


def figures(frame: Any) -> Any:
    """A frame without what depends on when and where it was computed."""
    drop = [name for name in ("wall_s", "started_at", "simulated_in_s", "host", "attempt") if name in frame]
    return frame.drop(columns=drop)


def test_the_same_rows_inline_and_in_processes(tmp_path: Path) -> None:
    here = start(ASKED, tmp_path / "a", Where(processes=1)).to_frame()
    there = start(ASKED, tmp_path / "b", Where(processes=2)).to_frame()
    assert figures(here).equals(figures(there))
    assert here["status"].tolist() == ["ok", "ok", "ok", "ok", "invalid", "invalid", "ok", "ok"]
    assert "plan.tp" in here["reason"][4]


def test_a_sweep_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    class Stops(Inline):
        def rows(self, definition: Any, tasks: Sequence[Task]) -> Any:
            for number, rows in enumerate(super().rows(definition, tasks)):
                if number == 3:
                    raise KeyboardInterrupt
                yield rows

    stopped = execute(define(ASKED), tmp_path / "s", Wishes(executor=Stops()))
    assert stopped.interrupted and stopped.progress.done == 3
    found = resume(tmp_path / "s", Where(processes=1))
    assert found.outcome.complete and found.outcome.progress.before == 3
    frame = found.query("SELECT count(*) rows, count(DISTINCT cell) cells FROM attempts")
    assert frame.iloc[0].tolist() == [8, 8]


def test_draws_are_paired(tmp_path: Path) -> None:
    found = start(replace(ASKED, vary=("training.global_batch=16,32",), draws=5), tmp_path / "s", Where(processes=1))
    drawn = found.query('SELECT draw, "x.training.global_batch" AS batch, step_time_s FROM ok').pivot(
        index="draw", columns="batch", values="step_time_s"
    )
    assert drawn.corr().loc[16, 32] > 0.9  # the same draws of coefficients, which weigh a little differently
    again = start(
        replace(ASKED, vary=("training.global_batch=16,32",), draws=5), tmp_path / "t", Where(processes=1)
    ).to_frame()
    assert figures(again).equals(figures(found.to_frame()))
    assert len(found.query("SELECT * FROM draws")) == 2


def test_an_estimate_stores_nothing(tmp_path: Path) -> None:
    found = forecast(ASKED)
    assert found.cells == 8 and found.tried == 8
    assert found.ok_share == pytest.approx(6 / 8)
    assert found.cpu_s > 0


def test_what_is_wrong_is_told_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        define(Asked(source=SMALL, vary=("plan.tp=1", "model.x.y=3"), verb="serv", draws=-1))
    told = " | ".join(str(problem) for problem in caught.value.problems)
    for words in ("serve", "--draws", "model.x.y"):
        assert words in told


def test_a_scenario_without_the_section_is_refused() -> None:
    with pytest.raises(BadInput, match="serving: is required to sweep `serve`"):
        define(Asked(source=SMALL, verb="serve"))


@pytest.mark.slow
def test_a_plan_left_open_is_the_planners_choice_in_every_cell() -> None:
    open_plan = {name: value for name, value in SMALL.items() if name != "plan"}
    definition = define(Asked(source=open_plan, vary=("training.global_batch=32,64",)))
    computer = Computer(definition)
    for cell in definition.cells():
        row = computer.row(cell)
        settings = [f"training.global_batch={dict(cell.settings)['training.global_batch']}"]
        alone = api.simulate_training(open_plan, overrides=settings, sensitivities=False)
        assert row["status"] == "ok" and row["step_time_s"] == alone.step_time_s


def test_status_tells_reasons(tmp_path: Path) -> None:
    start(ASKED, tmp_path / "s", Where(processes=1))
    found = summary(tmp_path / "s")
    assert found["done"] == found["cells"] == 8 and found["missing"] == 0
    assert sum(row["cells"] for row in found["failures"]) == 2


def test_settings_touch_only_what_they_name() -> None:
    data = {"a": {"b": [{"c": 1}, {"c": 2}]}, "d": 3}
    new = with_settings(data, {"a.b.1.c": 5, "e.f": 6})
    assert new == {"a": {"b": [{"c": 1}, {"c": 5}]}, "d": 3, "e": {"f": 6}}
    assert data == {"a": {"b": [{"c": 1}, {"c": 2}]}, "d": 3}
    with pytest.raises(KeyError):
        with_settings(data, {"d.x": 1})
    with pytest.raises(KeyError):
        with_settings(data, {"a.b.7.c": 1})


def _dies_at_three(source: dict[str, Any], **_: Any) -> SimpleNamespace:
    if source["n"] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return SimpleNamespace(to_dict=lambda: {"twice": 2 * source["n"]})


def _command_that_kills() -> Command:
    return Command(id="kills", needs=(("n",),), run=_dies_at_three, result="", view="", sweep=InSweeps(cell_cpu_s=1.0))


@pytest.mark.skipif(multiprocessing.get_start_method() is None, reason="processes cannot be started")
def test_a_cell_that_kills_its_process_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is registered in the children through an entry of their start-up."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    module = tmp_path / "sitecustomize.py"
    module.write_text(
        "import os, signal\n"
        "from types import SimpleNamespace\n"
        "def run(source, **_):\n"
        "    if source['n'] == 3:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return SimpleNamespace(to_dict=lambda: {'twice': 2 * source['n']})\n"
        "from windtunnel.commands import COMMANDS\n"
        "from windtunnel.commands.base import Command, InSweeps\n"
        "COMMANDS.add('kills', Command(id='kills', needs=(('n',),), run=run, result='', view='', sweep=InSweeps()))\n"
    )
    monkeypatch.setitem(COMMANDS._entries, "kills", _command_that_kills())
    definition = define(Asked(source={"n": 0}, vary=("n=1,2,3,4,5",), verb="kills"))
    executor: Executor = Processes(2)
    outcome = execute(definition, tmp_path / "s", Wishes(executor=executor))
    assert outcome.complete
    assert outcome.progress.statuses == {"ok": 4, "crashed": 1}
    reasons = summary(tmp_path / "s")["failures"]
    assert "SIGKILL" in reasons[0]["reason"]
